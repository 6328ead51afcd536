// Keys of a model that Megatron-LM's arguments and NeMo's configurations have alike.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace stoa::foreign {

// position_embedding_type. ALiBi has no word and is lost, which require_same_model() says.
inline std::string_view position_word(const model::ModelConfig& c) {
  switch (c.position_embedding_type) {
    case model::PositionEmbedding::kRope:
      return "rope";
    case model::PositionEmbedding::kRelative:
      return "relative";
    case model::PositionEmbedding::kNone:
      return "none";
    default:
      return "learned_absolute";
  }
}

// moe_layer_freq as a list: 1 for a layer with experts, 0 for another.
inline std::vector<std::int64_t> expert_layers(const model::ModelConfig& c) {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) out.push_back(c.moe.has_experts(layer) ? 1 : 0);
  return out;
}

// `out`: what has put(name, value).
template <class Out>
void put_router(Out& out, const model::MoeConfig& m) {
  const bool sigmoid = m.moe_router_score_function == model::RouterScoreFunction::kSigmoid;
  out.put("moe_router_score_function", std::string_view(sigmoid ? "sigmoid" : "softmax"));
  out.put("moe_router_pre_softmax", m.moe_router_pre_softmax);
  if (m.moe_router_topk_scaling_factor)
    out.put("moe_router_topk_scaling_factor", *m.moe_router_topk_scaling_factor);
  out.put("moe_router_num_groups", m.moe_router_num_groups);
  out.put("moe_router_group_topk", m.moe_router_group_topk);
  out.put("moe_router_enable_expert_bias", m.moe_router_enable_expert_bias);
  out.put("moe_grouped_gemm", true);
  if (m.moe_expert_capacity_factor) out.put("moe_expert_capacity_factor", *m.moe_expert_capacity_factor);
}

template <class Out>
void put_latent_sizes(Out& out, const model::LatentConfig& latent) {
  out.put("multi_latent_attention", true);
  out.put("q_lora_rank", latent.q_lora_rank);
  out.put("kv_lora_rank", latent.kv_lora_rank);
  out.put("qk_head_dim", latent.qk_head_dim);
  out.put("qk_pos_emb_head_dim", latent.qk_pos_emb_head_dim);
  out.put("v_head_dim", latent.v_head_dim);
}

}  // namespace stoa::foreign
