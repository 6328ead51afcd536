// Qwen3-Next: three layers of linear attention by the gated delta rule (2412.06464) to one of softmax
// attention with a gated output; experts, and a gated shared expert.
#include <algorithm>

#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/hybrid_keys.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_qwen3_next(JsonKeys& keys, ModelConfig& c) {
  read_hybrid_keys(keys, c,
                   {.vocabulary = 151936,
                    .hidden = 2048,
                    .layers = 48,
                    .heads = 16,
                    .ffn = 5632,
                    .groups = 2,
                    .head_size = 256,
                    .positions = 32768,
                    .rope = {.share = 0.25}});
  const std::int64_t step = keys.integer("decoder_sparse_step", 1).value_or(1);
  const auto dense = keys.integers("mlp_only_layers");
  const bool normed = keys.boolean("norm_topk_prob").value_or(true);
  read_hybrid_experts(keys, c, 512, 10);
  c.moe.moe_router_pre_softmax = !normed;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    if ((layer + 1) % step != 0 || std::find(dense.begin(), dense.end(), layer) != dense.end())
      c.moe.moe_dense_layers.push_back(layer);
}

void write_qwen3_next(const ModelSpec& spec, Json& json) {
  write_hybrid_keys(spec, json);
  write_hybrid_experts(spec.config, json);
  json["norm_topk_prob"] = !spec.config.moe.moe_router_pre_softmax;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = dense_layers(spec.config);
}

// The value heads of a key head stand together.
std::vector<RowRun> by_key_head(const ModelConfig& c, const std::vector<CanonicalTensor>& parts) {
  return in_heads(c.linear.linear_num_key_heads, parts);
}

NameMap qwen3_next_names() {
  return hybrid_names(
      {{"model.layers.{}.linear_attn.in_proj_qkvz",
        {"layers.{}.delta.q", "layers.{}.delta.k", "layers.{}.delta.v", "layers.{}.delta.z"},
        by_key_head},
       {"model.layers.{}.linear_attn.in_proj_ba", {"layers.{}.delta.b", "layers.{}.delta.a"}, by_key_head}});
}

}  // namespace

const Family kQwen3Next{"qwen3_next", "Qwen3NextForCausalLM", read_qwen3_next, write_qwen3_next,
                        qwen3_next_names};

}  // namespace stoa::model::huggingface
