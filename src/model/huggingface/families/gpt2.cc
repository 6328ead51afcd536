// GPT-2 (Radford et al. 2019): learned positions, LayerNorm, biases everywhere; Conv1D stores [in, out].
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_gpt2(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50257);
  c.hidden_size = keys.integer("n_embd", 1).value_or(768);
  c.num_layers = keys.integer("n_layer", 1).value_or(12);
  c.num_attention_heads = keys.integer("n_head", 1).value_or(12);
  c.ffn_hidden_size = keys.integer("n_inner", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("n_positions", 1).value_or(1024);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation_function").value_or("gelu_new"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0.1);
  c.attention_dropout = keys.number("attn_pdrop").value_or(0.1);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0.1);
  if (!keys.boolean("scale_attn_weights").value_or(true)) c.softmax_scale = 1;
  keys.only("scale_attn_by_inverse_layer_idx", false);
  keys.only("add_cross_attention", false);
}

void write_gpt2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["n_positions"] = c.max_positions();
  json["n_embd"] = c.hidden_size;
  json["n_layer"] = c.num_layers;
  json["n_head"] = c.num_attention_heads;
  json["n_inner"] = c.ffn_size() == 4 * c.hidden_size ? Json() : Json(c.ffn_size());
  json["activation_function"] = activation_name(c.activation);
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["resid_pdrop"] = c.hidden_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["scale_attn_weights"] = !c.softmax_scale;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
}

// Buffers of older versions: causal masks.
bool is_mask(std::string_view name, const ModelConfig&) {
  return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

NameMap gpt2_names() {
  const auto conv1d = [](std::string_view file, std::vector<std::string_view> parts) {
    return NameRule{.file = file, .parts = std::move(parts), .transposed = true};
  };
  return {.prefix = "transformer.",
          .rules = {{"transformer.wte", {"embedding.tokens"}},
                    {"transformer.wpe", {"embedding.positions"}},
                    {"transformer.ln_f", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"transformer.h.{}.ln_1", {"layers.{}.norm1"}},
                    conv1d("transformer.h.{}.attn.c_attn",
                           {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}),
                    conv1d("transformer.h.{}.attn.c_proj", {"layers.{}.attention.out"}),
                    {"transformer.h.{}.ln_2", {"layers.{}.norm2"}},
                    conv1d("transformer.h.{}.mlp.c_fc", {"layers.{}.mlp.up"}),
                    conv1d("transformer.h.{}.mlp.c_proj", {"layers.{}.mlp.down"})},
          .needless = is_mask};
}

}  // namespace

const Family kGpt2{"gpt2", "GPT2LMHeadModel", read_gpt2, write_gpt2, gpt2_names};

}  // namespace stoa::model::huggingface
