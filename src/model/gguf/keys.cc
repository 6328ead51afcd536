#include "model/gguf/keys.h"

#include <algorithm>
#include <cmath>

#include "model/gguf/rope_factors.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::gguf {

namespace hf = model::huggingface;

void read_sizes(JsonKeys& keys, ModelConfig& c) {
  const auto need = [&](const char* key) {
    const auto value = keys.integer(key, 1);
    require<ConfigError>(value.has_value(), "the metadata has no key {}", key);
    return *value;
  };
  c.vocab_size = need("vocab_size");
  c.hidden_size = need("embedding_length");
  c.num_layers = need("block_count");
  c.num_attention_heads = need("attention.head_count");
  c.num_query_groups = keys.integer("attention.head_count_kv", 1).value_or(c.num_attention_heads);
  c.ffn_hidden_size = need("feed_forward_length");
  c.max_position_embeddings = need("context_length");
  const auto key_size = keys.integer("attention.key_length", 1),
             value_size = keys.integer("attention.value_length", 1);
  require<ConfigError>(
      value_size.value_or(0) == key_size.value_or(0) || !value_size || !key_size,
      "heads with keys of {} and values of {} numbers are not supported in this architecture",
      key_size.value_or(0), value_size.value_or(0));
  c.kv_channels = key_size ? key_size : value_size;
  c.share_embeddings_and_output_weights = !keys.boolean("holds.output").value_or(false);
  c.lm_head_bias = keys.boolean("holds.output_bias").value_or(false);
  hf::set_biases(c, keys.boolean("holds.qkv_bias").value_or(false),
                 keys.boolean("holds.attn_output_bias").value_or(false),
                 keys.boolean("holds.ffn_bias").value_or(false));
  // What llama.cpp computes does not depend on these.
  for (const char* key : {"tensor_data_layout", "attention.causal", "rope.scaling.finetuned"})
    keys.ignore(key);
}

void write_sizes(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["context_length"] = c.max_positions();
  json["embedding_length"] = c.hidden_size;
  json["block_count"] = c.num_layers;
  json["feed_forward_length"] = c.ffn_size();
  json["attention.head_count"] = c.num_attention_heads;
  json["attention.head_count_kv"] = c.query_groups();
  json["attention.key_length"] = c.head_size();
  json["attention.value_length"] = c.head_size();
  // By the tensors in the file: metadata.h.
  json["holds.output"] = !c.share_embeddings_and_output_weights;
  json["holds.output_bias"] = c.lm_head_bias;
  json["holds.qkv_bias"] = c.has_qkv_bias();
  json["holds.attn_output_bias"] = c.has_attention_output_bias();
  json["holds.ffn_bias"] = c.has_mlp_bias();
}

void read_llama_like(JsonKeys& keys, ModelConfig& c) {
  read_sizes(keys, c);
  c.normalization = Normalization::kRmsNorm;
  c.layernorm_epsilon = keys.number("attention.layer_norm_rms_epsilon").value_or(1e-5);
  c.activation = Activation::kSwiglu;
  read_rotary(keys, c);
}

void write_llama_like(const ModelSpec& spec, Json& json) {
  write_sizes(spec, json);
  json["attention.layer_norm_rms_epsilon"] = spec.config.layernorm_epsilon;
  write_rotary(spec.config, json);
}

void read_layer_norm(JsonKeys& keys, ModelConfig& c) {
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("attention.layer_norm_epsilon").value_or(1e-5);
}

void read_rotary(JsonKeys& keys, ModelConfig& c, double default_base) {
  c.position_embedding_type = PositionEmbedding::kRope;
  c.rotary_base = keys.number("rope.freq_base").value_or(default_base);
  if (const auto rotated = keys.integer("rope.dimension_count", 1))
    c.rotary_percentage = static_cast<double>(*rotated) / static_cast<double>(c.head_size());
  read_rope_scaling(keys, c);
}

void write_rotary(const ModelConfig& c, Json& json) {
  json["rope.dimension_count"] = c.rotary_channels();
  json["rope.freq_base"] = c.rotary_base;
  write_rope_scaling(c, json);
}

void read_every_window(JsonKeys& keys, ModelConfig& c, std::optional<std::int64_t> period) {
  const std::int64_t size = keys.integer("attention.sliding_window", 0).value_or(0);
  if (size > 0) c.window_size = size;  // 0, as llama.cpp writes for Phi-4: none
  if (c.window_size) c.window_attn_skip_freq = period;
}

void read_expert_counts(JsonKeys& keys, ModelConfig& c) {
  const auto experts = keys.integer("expert_count", 0), chosen = keys.integer("expert_used_count", 0);
  if (experts.value_or(0) == 0) return;
  c.moe.num_moe_experts = experts;
  c.moe.moe_router_topk = chosen.value_or(2);
  c.moe.moe_ffn_hidden_size = keys.integer("expert_feed_forward_length", 1).value_or(c.ffn_size());
}

void write_expert_counts(const ModelConfig& c, Json& json) {
  if (!c.moe.num_moe_experts) return;
  json["expert_count"] = *c.moe.num_moe_experts;
  json["expert_used_count"] = c.moe.moe_router_topk;
}

NameMap block_names(bool pairs) {
  const auto rotated = pairs ? hf::paired_heads : hf::stacked;
  return {.prefix = "",
          .rules = {{"token_embd", {"embedding.tokens"}},
                    {"position_embd", {"embedding.positions"}},
                    {"output_norm", {"final_norm"}},
                    {"output", {"head"}},
                    {"blk.{}.attn_norm", {"layers.{}.norm1"}},
                    {"blk.{}.attn_q", {"layers.{}.attention.q"}, rotated},
                    {"blk.{}.attn_k", {"layers.{}.attention.k"}, rotated},
                    {"blk.{}.attn_v", {"layers.{}.attention.v"}},
                    {"blk.{}.attn_q_norm", {"layers.{}.attention.q_norm"}},
                    {"blk.{}.attn_k_norm", {"layers.{}.attention.k_norm"}},
                    {"blk.{}.attn_output", {"layers.{}.attention.out"}},
                    {"blk.{}.post_attention_norm", {"layers.{}.attention_norm"}},
                    {"blk.{}.ffn_norm", {"layers.{}.norm2"}},
                    {"blk.{}.ffn_gate", {"layers.{}.mlp.gate"}},
                    {"blk.{}.ffn_up", {"layers.{}.mlp.up"}},
                    {"blk.{}.ffn_down", {"layers.{}.mlp.down"}},
                    {"blk.{}.post_ffw_norm", {"layers.{}.mlp_norm"}}},
          .needless = [](std::string_view name, const ModelConfig&) { return name.starts_with("rope_f"); }};
}

NameRule fused_qkv() {
  return {"blk.{}.attn_qkv", {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}};
}

std::vector<NameRule> packed_experts() {
  const auto packed = [](std::string_view file, std::string_view part) {
    return NameRule{.file = file, .parts = {part}, .packed = true};
  };
  return {{"blk.{}.ffn_gate_inp", {"layers.{}.moe.router"}},
          packed("blk.{}.ffn_gate_exps", "layers.{}.moe.experts.{}.gate"),
          packed("blk.{}.ffn_up_exps", "layers.{}.moe.experts.{}.up"),
          packed("blk.{}.ffn_down_exps", "layers.{}.moe.experts.{}.down")};
}

}  // namespace stoa::model::gguf
