// GPT-J (Wang, Komatsuzaki 2021): parallel branches with one shared LayerNorm, partial rotary positions in
// interleaved pairs, a bias in the output head, none in attention.
#include <cmath>

#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// The share of a head whose whole part is `rotated` columns.
double share_of(std::int64_t rotated, std::int64_t head) {
  const double share = static_cast<double>(rotated) / static_cast<double>(head);
  return static_cast<std::int64_t>(share * static_cast<double>(head)) == rotated ? share
                                                                                 : std::nextafter(share, 1.0);
}

void read_gptj(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50400);
  c.hidden_size = keys.integer("n_embd", 1).value_or(4096);
  c.num_layers = keys.integer("n_layer", 1).value_or(28);
  c.num_attention_heads = keys.integer("n_head", 1).value_or(16);
  c.ffn_hidden_size = keys.integer("n_inner", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("n_positions", 1).value_or(2048);
  c.position_embedding_type = PositionEmbedding::kRope;
  c.rotary_base = 10000;
  require<ConfigError>(
      !keys.contains("rotary_dim") || keys.has("rotary_dim"),
      "config.json: rotary_dim null is not supported; give the columns of a head that rotate");
  const std::int64_t rotated = keys.integer("rotary_dim", 2).value_or(64);
  require<ConfigError>(rotated <= c.head_size(),
                       "config.json: rotary_dim is {}, expected at most the {} columns of a head", rotated,
                       c.head_size());
  c.rotary_percentage = share_of(rotated, c.head_size());
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation_function").value_or("gelu_new"));
  set_biases(c, false, false, true);
  c.lm_head_bias = true;
  c.use_parallel_residual = true;
  c.num_ln_in_parallel_attn = 1;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0);
  c.attention_dropout = keys.number("attn_pdrop").value_or(0);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0);
  keys.only("scale_attn_weights", true);
  keys.only("rotary", true);
}

void write_gptj(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["n_embd"] = c.hidden_size;
  json["n_layer"] = c.num_layers;
  json["n_head"] = c.num_attention_heads;
  json["n_inner"] = c.ffn_size() == 4 * c.hidden_size ? Json() : Json(c.ffn_size());
  json["n_positions"] = c.max_positions();
  json["rotary_dim"] = c.rotary_size();
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["activation_function"] = activation_name(c.activation);
  json["resid_pdrop"] = c.hidden_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
}

// Buffers of older versions.
bool is_buffer_of_gptj(std::string_view name, const ModelConfig&) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attn.embed_positions");
}

NameMap gptj_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "transformer.",
          .rules = {rule("transformer.wte", "embedding.tokens"),
                    rule("transformer.ln_f", "final_norm"),
                    rule("lm_head", "head"),
                    rule("transformer.h.{}.ln_1", "layers.{}.norm1"),
                    {"transformer.h.{}.attn.q_proj", {"layers.{}.attention.q"}, paired_heads},
                    {"transformer.h.{}.attn.k_proj", {"layers.{}.attention.k"}, paired_heads},
                    rule("transformer.h.{}.attn.v_proj", "layers.{}.attention.v"),
                    rule("transformer.h.{}.attn.out_proj", "layers.{}.attention.out"),
                    rule("transformer.h.{}.mlp.fc_in", "layers.{}.mlp.up"),
                    rule("transformer.h.{}.mlp.fc_out", "layers.{}.mlp.down")},
          .needless = is_buffer_of_gptj};
}

}  // namespace

const Family kGptj{"gptj", "GPTJForCausalLM", read_gptj, write_gptj, gptj_names};

}  // namespace stoa::model::huggingface
