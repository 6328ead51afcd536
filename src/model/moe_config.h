// Configuration of a mixture of experts: the keys of Megatron under `model`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

enum class RouterScoreFunction { kSoftmax, kSigmoid };
enum class LoadBalancing { kSequence, kNone };
enum class TokenDropPolicy { kProbs, kPosition };

std::span<const config::EnumName<RouterScoreFunction>> enum_names(RouterScoreFunction);
std::span<const config::EnumName<LoadBalancing>> enum_names(LoadBalancing);
std::span<const config::EnumName<TokenDropPolicy>> enum_names(TokenDropPolicy);

struct MoeConfig {
  std::optional<std::int64_t> num_moe_experts;  // null: no experts
  std::int64_t moe_router_topk = 2;
  std::optional<std::int64_t> moe_ffn_hidden_size;                  // of one expert; null: ffn_hidden_size
  std::optional<std::int64_t> moe_shared_expert_intermediate_size;  // of all shared experts together
  bool moe_shared_expert_gate = false;                              // they are times a gate of the token
  std::int64_t moe_layer_freq = 1;             // every n-th layer has experts, the first among them
  std::vector<std::int64_t> moe_dense_layers;  // layers that have none
  RouterScoreFunction moe_router_score_function = RouterScoreFunction::kSoftmax;
  bool moe_router_pre_softmax = false;  // weights are the scores themselves, not divided by their sum
  std::optional<double> moe_router_topk_scaling_factor;
  std::optional<std::int64_t> moe_router_num_groups, moe_router_group_topk;
  bool moe_router_enable_expert_bias = false;
  double moe_router_bias_update_rate = 1e-3;
  LoadBalancing moe_router_load_balancing_type = LoadBalancing::kSequence;
  double moe_aux_loss_coeff = 0.0;
  double moe_z_loss_coeff = 0.0;
  std::optional<double> moe_expert_capacity_factor;  // null: nothing is dropped
  TokenDropPolicy moe_token_drop_policy = TokenDropPolicy::kProbs;
  double moe_buffer_factor = 1.5;  // of an even load, for which memory of split experts is declared
  bool moe_pad_expert_input_to_capacity = false;  // of peers: here shapes of memory are fixed without it

  bool has_experts(std::int64_t layer) const;
};

void declare_moe(config::Section<MoeConfig>& s);
// ConfigError where numbers contradict each other.
void validate(const MoeConfig& c, std::int64_t layers);

}  // namespace stoa::model
