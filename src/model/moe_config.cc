#include "model/moe_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::model {

using config::EnumName;
using config::Section;

std::span<const EnumName<RouterScoreFunction>> enum_names(RouterScoreFunction) {
  static constexpr std::array<EnumName<RouterScoreFunction>, 2> kNames{
      {{"softmax", RouterScoreFunction::kSoftmax}, {"sigmoid", RouterScoreFunction::kSigmoid}}};
  return kNames;
}

std::span<const EnumName<LoadBalancing>> enum_names(LoadBalancing) {
  static constexpr std::array<EnumName<LoadBalancing>, 2> kNames{
      {{"seq_aux_loss", LoadBalancing::kSequence}, {"none", LoadBalancing::kNone}}};
  return kNames;
}

std::span<const EnumName<TokenDropPolicy>> enum_names(TokenDropPolicy) {
  static constexpr std::array<EnumName<TokenDropPolicy>, 2> kNames{
      {{"probs", TokenDropPolicy::kProbs}, {"position", TokenDropPolicy::kPosition}}};
  return kNames;
}

bool MoeConfig::has_experts(std::int64_t layer) const {
  return num_moe_experts && layer % moe_layer_freq == 0 &&
         std::find(moe_dense_layers.begin(), moe_dense_layers.end(), layer) == moe_dense_layers.end();
}

void declare_moe(Section<MoeConfig>& s) {
  using C = MoeConfig;
  constexpr double kMost = 1 << 20;
  s.field("num_moe_experts", &C::num_moe_experts)
      .alias("num_experts")
      .range(2, 65536)
      .help("Experts per layer. null: every layer has one MLP.");
  s.field("moe_router_topk", &C::moe_router_topk).range(1, 65536).help("Experts per token.");
  s.field("moe_ffn_hidden_size", &C::moe_ffn_hidden_size)
      .range(1, 8 * kMost)
      .derived("ffn_hidden_size")
      .help("Inner width of one expert.");
  s.field("moe_shared_expert_intermediate_size", &C::moe_shared_expert_intermediate_size)
      .range(1, 8 * kMost)
      .help("Inner width of all shared experts together, which process every token. null: none.");
  s.field("moe_shared_expert_gate", &C::moe_shared_expert_gate)
      .help("The output of the shared experts is multiplied by a sigmoid gate of the token (Qwen 2 MoE).");
  s.field("moe_layer_freq", &C::moe_layer_freq)
      .range(1, 10000)
      .help("Every n-th layer has experts, layer 0 among them; the others are dense.");
  s.field("moe_dense_layers", &C::moe_dense_layers).help("Layers without experts, numbered from 0.");
  s.field("moe_router_score_function", &C::moe_router_score_function)
      .help("How scores are computed from a router's logits.");
  s.field("moe_router_pre_softmax", &C::moe_router_pre_softmax)
      .help("Weights are the scores over all experts; false: divided by the sum of the chosen ones.");
  s.field("moe_router_topk_scaling_factor", &C::moe_router_topk_scaling_factor)
      .above(0)
      .help("Factor of the weights. null: 1.");
  s.field("moe_router_num_groups", &C::moe_router_num_groups)
      .range(1, 65536)
      .help("Group-limited routing: number of groups of experts. null: no groups.");
  s.field("moe_router_group_topk", &C::moe_router_group_topk)
      .range(1, 65536)
      .help("Number of groups from which a token's experts are chosen.");
  s.field("moe_router_enable_expert_bias", &C::moe_router_enable_expert_bias)
      .help(
          "A bias used for selecting experts only, adjusted after every step by the experts' load in the "
          "global batch (auxiliary-loss-free balancing). Sigmoid scores only.");
  s.field("moe_router_bias_update_rate", &C::moe_router_bias_update_rate)
      .above(0)
      .range(0, 1)
      .help("Step size of that bias.");
  s.field("moe_router_load_balancing_type", &C::moe_router_load_balancing_type)
      .help(
          "seq_aux_loss: a loss per sequence that balances the experts' load. Losses over a micro-batch "
          "depend on the layout and are not supported.");
  s.field("moe_aux_loss_coeff", &C::moe_aux_loss_coeff)
      .range(0, 100)
      .help("Coefficient of that loss; 0: off.");
  s.field("moe_z_loss_coeff", &C::moe_z_loss_coeff)
      .range(0, 100)
      .help("Coefficient of the squared log-sum-exp of a router's logits; 0: off.");
  s.field("moe_expert_capacity_factor", &C::moe_expert_capacity_factor)
      .above(0)
      .help(
          "An expert accepts at most this multiple of its equal share of a sequence's assignments (rounded "
          "up); the rest are dropped, in training and validation. null: nothing is dropped.");
  s.field("moe_token_drop_policy", &C::moe_token_drop_policy)
      .help(
          "Which assignments are kept: those with the largest weights (probs), or those of the first tokens "
          "(position).");
  s.field("moe_buffer_factor", &C::moe_buffer_factor)
      .range(0.05, 65536)
      .help(
          "With experts distributed over ranks: memory is declared for this multiple of the rows that a rank gets "
          "when the load is even, at most for all that can come. Rows beyond are handled in further parts, "
          "with the same results; backward computes them again, so frequent overload costs time. FP8 GEMMs "
          "scale by all rows of an expert: with model.fp8, memory is declared for all that can come.");
  s.field("moe_pad_expert_input_to_capacity", &C::moe_pad_expert_input_to_capacity)
      .help(
          "In Megatron-LM: pad to shapes that do not depend on the router. In Stoa the experts' memory has "
          "the size of the capacity with or without it, and only rows that arrive are computed: results, "
          "memory and speed are the same. Needs moe_expert_capacity_factor; it is passed on in arguments for "
          "Megatron-LM.");
}

void validate(const MoeConfig& c, std::int64_t layers) {
  if (!c.num_moe_experts) {
    require<ConfigError>(!c.moe_ffn_hidden_size && !c.moe_shared_expert_intermediate_size &&
                             c.moe_dense_layers.empty() && !c.moe_expert_capacity_factor &&
                             !c.moe_shared_expert_gate && !c.moe_pad_expert_input_to_capacity,
                         "keys moe_* are used only with num_moe_experts");
    return;
  }
  const std::int64_t experts = *c.num_moe_experts;
  require<ConfigError>(c.moe_router_topk <= experts, "moe_router_topk {} is more than num_moe_experts {}",
                       c.moe_router_topk, experts);
  require<ConfigError>(c.moe_expert_capacity_factor || c.moe_token_drop_policy == TokenDropPolicy::kProbs,
                       "moe_token_drop_policy is used only with moe_expert_capacity_factor");
  require<ConfigError>(
      c.moe_expert_capacity_factor || !c.moe_pad_expert_input_to_capacity,
      "moe_pad_expert_input_to_capacity needs moe_expert_capacity_factor: without it an expert "
      "has no capacity; give a factor, for example 1.25");
  for (const std::int64_t layer : c.moe_dense_layers)
    require<ConfigError>(layer >= 0 && layer < layers, "moe_dense_layers names layer {}, there are 0 to {}",
                         layer, layers - 1);
  require<ConfigError>(
      !c.moe_router_enable_expert_bias || c.moe_router_score_function == RouterScoreFunction::kSigmoid,
      "moe_router_enable_expert_bias needs moe_router_score_function sigmoid");
  require<ConfigError>(c.moe_router_num_groups.has_value() == c.moe_router_group_topk.has_value(),
                       "moe_router_num_groups and moe_router_group_topk are used only together");
  if (!c.moe_router_num_groups) return;
  const std::int64_t groups = *c.moe_router_num_groups, chosen = *c.moe_router_group_topk;
  require<ConfigError>(experts % groups == 0,
                       "num_moe_experts {} is not divisible by moe_router_num_groups {}", experts, groups);
  require<ConfigError>(chosen <= groups, "moe_router_group_topk {} is more than moe_router_num_groups {}",
                       chosen, groups);
  require<ConfigError>(c.moe_router_topk <= experts / groups * chosen,
                       "moe_router_topk {} is more than the {} expert{} of {}", c.moe_router_topk,
                       experts / groups * chosen, experts / groups * chosen == 1 ? "" : "s",
                       chosen == 1 ? std::string("one group (moe_router_group_topk)")
                                   : fmt::format("{} groups (moe_router_group_topk)", chosen));
}

}  // namespace stoa::model
