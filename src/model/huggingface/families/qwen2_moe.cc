// Qwen 1.5 and 2 with experts (2407.10671, section 2.2.2), and a shared expert for every token, scaled by a
// gate.
#include <algorithm>

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_qwen2_moe(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c,
                  {.vocabulary = 151936,
                   .hidden = 2048,
                   .layers = 24,
                   .heads = 16,
                   .ffn = 5632,
                   .groups = 16,
                   .positions = 32768});
  c.bias = keys.boolean("qkv_bias").value_or(true) ? BiasKind::kQkv : BiasKind::kNone;
  const bool use = keys.boolean("use_sliding_window").value_or(false);
  const std::int64_t window = keys.integer("sliding_window").value_or(4096);
  const std::int64_t below = keys.integer("max_window_layers").value_or(28);
  if (keys.has("layer_types")) {
    read_window(keys, c, use ? std::optional(window) : std::nullopt, 0);
  } else if (use) {  // every other layer, the first among them
    for (std::int64_t l = 0; l < std::min(below, c.num_layers); l += 2) c.window_layers.push_back(l);
    if (!c.window_layers.empty()) c.window_size = window;
  }
  read_experts(keys, c, 60, 4);
  c.moe.moe_ffn_hidden_size = keys.integer("moe_intermediate_size", 1).value_or(1408);
  c.moe.moe_shared_expert_intermediate_size =
      keys.integer("shared_expert_intermediate_size", 1).value_or(5632);
  c.moe.moe_shared_expert_gate = true;
  c.moe.moe_router_pre_softmax = !keys.boolean("norm_topk_prob").value_or(false);
  const std::int64_t step = keys.integer("decoder_sparse_step", 1).value_or(1);
  const auto dense = keys.integers("mlp_only_layers");
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if ((l + 1) % step != 0 || std::find(dense.begin(), dense.end(), l) != dense.end())
      c.moe.moe_dense_layers.push_back(l);
}

void write_qwen2_moe(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  json["qkv_bias"] = c.has_qkv_bias();
  write_qwen_window(c, json);
  write_experts(c, json);
  json["num_experts"] = c.moe.num_moe_experts.value_or(0);
  json["moe_intermediate_size"] = c.moe_ffn_size();
  json["shared_expert_intermediate_size"] = c.moe.moe_shared_expert_intermediate_size.value_or(0);
  json["norm_topk_prob"] = !c.moe.moe_router_pre_softmax;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = dense_layers(c);
}

NameMap qwen2_moe_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> experts{
      {"model.layers.{}.mlp.gate", {"layers.{}.moe.router"}},
      {"model.layers.{}.mlp.experts.{}.gate_proj", {"layers.{}.moe.experts.{}.gate"}},
      {"model.layers.{}.mlp.experts.{}.up_proj", {"layers.{}.moe.experts.{}.up"}},
      {"model.layers.{}.mlp.experts.{}.down_proj", {"layers.{}.moe.experts.{}.down"}},
      {"model.layers.{}.mlp.shared_expert.gate_proj", {"layers.{}.moe.shared.gate"}},
      {"model.layers.{}.mlp.shared_expert.up_proj", {"layers.{}.moe.shared.up"}},
      {"model.layers.{}.mlp.shared_expert.down_proj", {"layers.{}.moe.shared.down"}},
      {"model.layers.{}.mlp.shared_expert_gate", {"layers.{}.moe.shared_gate"}}};
  out.rules.insert(out.rules.end(), experts.begin(), experts.end());
  return out;
}

}  // namespace

const Family kQwen2Moe{"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe, write_qwen2_moe, qwen2_moe_names};

}  // namespace stoa::model::huggingface
