// GPT-NeoX and Pythia (2204.06745, 2304.01373): parallel branches, partial rotary positions.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_gpt_neox(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50432);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(6144);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(44);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(64);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(24576);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(2048);
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-5);
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu"));
  const bool attention_bias = keys.boolean("attention_bias").value_or(true);
  set_biases(c, attention_bias, attention_bias, true);
  c.use_parallel_residual = keys.boolean("use_parallel_residual").value_or(true);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.hidden_dropout = keys.number("hidden_dropout").value_or(0);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  keys.ignore("classifier_dropout");
  // transformers 4.x has names of its own.
  read_rope(keys, c,
            {.base = keys.number("rotary_emb_base").value_or(10000),
             .share = keys.number("rotary_pct").value_or(0.25)});
}

void write_gpt_neox(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["max_position_embeddings"] = c.max_positions();
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["hidden_act"] = activation_name(c.activation);
  json["attention_bias"] = c.has_qkv_bias();
  json["use_parallel_residual"] = c.use_parallel_residual;
  json["hidden_dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["rotary_pct"] = c.rotary_percentage;
  json["rotary_emb_base"] = c.rotary_base;
  write_rope(c, json);
}

// Buffers of older versions.
bool is_buffer(std::string_view name, const ModelConfig&) {
  return name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

NameMap gpt_neox_names() {
  return {.prefix = "gpt_neox.",
          .rules = {{"gpt_neox.embed_in", {"embedding.tokens"}},
                    {.file = "embed_out", .parts = {"head"}, .also = "lm_head"},
                    {"gpt_neox.final_layer_norm", {"final_norm"}},
                    {"gpt_neox.layers.{}.input_layernorm", {"layers.{}.norm1"}},
                    {"gpt_neox.layers.{}.attention.query_key_value",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"},
                     by_head},
                    {"gpt_neox.layers.{}.attention.dense", {"layers.{}.attention.out"}},
                    {"gpt_neox.layers.{}.post_attention_layernorm", {"layers.{}.norm2"}},
                    {"gpt_neox.layers.{}.mlp.dense_h_to_4h", {"layers.{}.mlp.up"}},
                    {"gpt_neox.layers.{}.mlp.dense_4h_to_h", {"layers.{}.mlp.down"}}},
          .needless = is_buffer};
}

}  // namespace

const Family kGptNeox{"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox, write_gpt_neox, gpt_neox_names};

}  // namespace stoa::model::huggingface
