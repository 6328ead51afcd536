// Qwen 3 with experts (2505.09388), some layers of which may be dense.
#include <algorithm>

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_qwen3_moe(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 151936, .ffn = 6144, .groups = 4, .positions = 32768});
  c.qk_layernorm = true;
  keys.only("use_qk_norm", true);
  read_attention_bias(keys, c);
  // transformers gives the window to every layer.
  for (const char* key : {"max_window_layers", "layer_types"}) keys.ignore(key);
  const std::int64_t window = keys.integer("sliding_window", 1).value_or(4096);
  if (keys.boolean("use_sliding_window").value_or(false)) c.window_size = window;
  read_experts(keys, c, 128, 8);
  c.moe.moe_ffn_hidden_size = keys.integer("moe_intermediate_size", 1).value_or(768);
  c.moe.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(false);
  const std::int64_t step = keys.integer("decoder_sparse_step", 1).value_or(1);
  const auto dense = keys.integers("mlp_only_layers");
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if ((l + 1) % step != 0 || std::find(dense.begin(), dense.end(), l) != dense.end())
      c.moe.moe_dense_layers.push_back(l);
}

void write_qwen3_moe(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["attention_bias"] = c.has_qkv_bias();
  json["use_sliding_window"] = c.window_size.has_value();
  json["sliding_window"] = c.window_size ? Json(*c.window_size) : Json();
  write_experts(c, json);
  json["num_experts"] = c.moe.num_moe_experts.value_or(0);  // 4.x reads this one
  json["moe_intermediate_size"] = c.moe_ffn_size();
  json["norm_topk_prob"] = !c.moe.moe_router_pre_softmax;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = dense_layers(c);
}

NameMap qwen3_moe_names() {
  NameMap out = llama_names();
  add_rules(out, expert_names());
  return out;
}

}  // namespace

const Family kQwen3Moe{"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, write_qwen3_moe, qwen3_moe_names};

}  // namespace stoa::model::huggingface
