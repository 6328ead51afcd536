// BLOOM (2211.05100): GPT-2 with ALiBi and a norm after the embeddings.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

// Keys for training, or for fused kernels of the original implementation.
constexpr const char* kNeedless[] = {"slow_but_exact",      "offset_alibi", "skip_bias_add",
                                     "skip_bias_add_qkv",   "unk_token_id", "masked_softmax_fusion",
                                     "bias_dropout_fusion", "n_inner",      "attention_softmax_in_fp32",
                                     "hidden_dropout_prob"};

void read_bloom(JsonKeys& keys, ModelConfig& c) {
  const auto either = [&](const char* name, const char* other, std::int64_t fallback) {
    const auto value = keys.integer(name, 1), same = keys.integer(other, 1);
    return value ? *value : same.value_or(fallback);
  };
  c.vocab_size = keys.integer("vocab_size", 1).value_or(250880);
  c.hidden_size = either("hidden_size", "n_embed", 64);
  c.num_layers = either("n_layer", "num_hidden_layers", 2);
  c.num_attention_heads = either("n_head", "num_attention_heads", 8);
  c.ffn_hidden_size = 4 * c.hidden_size;
  c.max_position_embeddings = keys.integer("seq_length", 1).value_or(2048);  // of training
  c.position_embedding_type = PositionEmbedding::kAlibi;
  c.embedding_layernorm = true;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = Activation::kGeluTanh;
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("hidden_dropout").value_or(0);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  keys.only("apply_residual_connection_post_layernorm", false);
  for (const char* key : kNeedless) keys.ignore(key);
}

void write_bloom(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["n_layer"] = c.num_layers;
  json["n_head"] = c.num_attention_heads;
  json["seq_length"] = c.max_positions();
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["hidden_dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["apply_residual_connection_post_layernorm"] = false;
}

NameMap bloom_names() {
  return {.prefix = "transformer.",
          .rules = {{"transformer.word_embeddings", {"embedding.tokens"}},
                    {"transformer.word_embeddings_layernorm", {"embedding.norm"}},
                    {"transformer.ln_f", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"transformer.h.{}.input_layernorm", {"layers.{}.norm1"}},
                    {"transformer.h.{}.self_attention.query_key_value",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"},
                     by_head},
                    {"transformer.h.{}.self_attention.dense", {"layers.{}.attention.out"}},
                    {"transformer.h.{}.post_attention_layernorm", {"layers.{}.norm2"}},
                    {"transformer.h.{}.mlp.dense_h_to_4h", {"layers.{}.mlp.up"}},
                    {"transformer.h.{}.mlp.dense_4h_to_h", {"layers.{}.mlp.down"}}}};
}

}  // namespace

const Family kBloom{"bloom", "BloomForCausalLM", read_bloom, write_bloom, bloom_names};

}  // namespace stoa::model::huggingface
