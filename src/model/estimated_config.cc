#include "model/estimated_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::model {

std::span<const config::EnumName<StateType>> enum_names(StateType) {
  static constexpr std::array<config::EnumName<StateType>, 4> kNames{{{"fp32", StateType::kFp32},
                                                                      {"bf16", StateType::kBf16},
                                                                      {"fp16", StateType::kFp16},
                                                                      {"fp8", StateType::kFp8}}};
  return kNames;
}

std::int64_t bytes_of(StateType type) {
  return type == StateType::kFp32 ? 4 : type == StateType::kFp8 ? 1 : 2;
}

std::span<const config::EnumName<Fp8Blocks>> enum_names(Fp8Blocks) {
  static constexpr std::array<config::EnumName<Fp8Blocks>, 3> kNames{
      {{"none", Fp8Blocks::kNone}, {"blockwise", Fp8Blocks::kBlockwise}, {"mxfp8", Fp8Blocks::kMxfp8}}};
  return kNames;
}

std::span<const config::EnumName<RecomputedModule>> enum_names(RecomputedModule) {
  static constexpr std::array<config::EnumName<RecomputedModule>, 4> kNames{
      {{"mla_up_proj", RecomputedModule::kUpProjections},
       {"mlp", RecomputedModule::kMlp},
       {"moe", RecomputedModule::kMoe},
       {"shared_experts", RecomputedModule::kSharedExperts}}};
  return kNames;
}

std::int64_t EstimatedConfig::layers_of(char kind) const {
  return std::count(hybrid_override_pattern.begin(), hybrid_override_pattern.end(), kind);
}

void declare_estimated(config::Section<EstimatedConfig>& s) {
  using C = EstimatedConfig;
  constexpr double kMost = 65536;
  s.field("mtp_num_layers", &C::mtp_num_layers)
      .range(0, 64)
      .help(
          "Layers that each predict one token more (multi-token prediction). This key and the following ones "
          "are those of Megatron-LM and NeMo for what Stoa does not train: plans estimate it for "
          "Megatron-LM.");
  s.field("fp8_params", &C::fp8_params)
      .help("The weights of FP8 GEMMs are kept and gathered in 8 bits (Megatron-LM: fp8-param-gather).");
  s.field("fp8_blocks", &C::fp8_blocks)
      .help("FP8 with a scale for each block of 128 x 128 (blockwise) or of 32 numbers (mxfp8).");
  s.field("hybrid_override_pattern", &C::hybrid_override_pattern)
      .help(
          "Layers of Mamba's hybrids, a letter each: M a state-space layer (Mamba 2), * attention, - an MLP. "
          "Empty: every layer has attention and an MLP.");
  s.field("mamba_state_dim", &C::mamba_state_dim).range(1, kMost).help("Columns of a state.");
  s.field("mamba_head_dim", &C::mamba_head_dim).range(1, kMost).help("Rows of a state.");
  s.field("mamba_num_groups", &C::mamba_num_groups)
      .range(1, kMost)
      .help("Groups of heads that share their inputs B and C.");
  s.field("mamba_num_heads", &C::mamba_num_heads)
      .range(1, kMost)
      .derived("2 x hidden_size / mamba_head_dim")
      .help("Heads, each with a state.");
  s.field("recompute_modules", &C::recompute_modules)
      .help(
          "Parts of a layer that selective recomputation computes again, besides the core of attention: "
          "mla_up_proj, mlp, moe, shared_experts.");
  s.field("exp_avg_dtype", &C::exp_avg_dtype).help("Type of the optimizer's first moment.");
  s.field("exp_avg_sq_dtype", &C::exp_avg_sq_dtype).help("Type of the optimizer's second moment.");
  s.field("main_params_dtype", &C::main_params_dtype).help("Type of the master weights.");
  s.field("main_grads_dtype", &C::main_grads_dtype).help("Type of the gradients that are kept.");
  s.field("use_tp_pp_dp_mapping", &C::use_tp_pp_dp_mapping)
      .help("Stages are placed next to each other, and data-parallel ranks outermost.");
  s.field("num_distributed_optimizer_instances", &C::num_distributed_optimizer_instances)
      .range(1, kMost)
      .help("Groups of data-parallel ranks, each of which holds the whole state of the optimizer.");
  s.field("overlap_moe_expert_parallel_comm", &C::overlap_moe_expert_parallel_comm)
      .help("Rows travel to experts and back while another microbatch is computed.");
}

void validate(const EstimatedConfig& e, const ModelConfig& c) {
  require<ConfigError>(e.mtp_num_layers == 0 || c.kind == ModelKind::kGpt,
                       "mtp_num_layers is for kind gpt only: leave it out");
  require<ConfigError>(!e.fp8_params || c.fp8.fp8, "fp8_params needs fp8: give fp8: hybrid or e4m3");
  require<ConfigError>(e.fp8_blocks == Fp8Blocks::kNone || c.fp8.fp8,
                       "fp8_blocks needs fp8: give fp8: hybrid or e4m3");
  require<ConfigError>(
      e.recompute_modules.empty() || c.recompute.granularity == RecomputeGranularity::kSelective,
      "recompute_modules needs activations_checkpoint_granularity: selective");
  require<ConfigError>(!e.overlap_moe_expert_parallel_comm || c.moe.num_moe_experts,
                       "overlap_moe_expert_parallel_comm needs experts: give num_moe_experts");
  if (e.hybrid_override_pattern.empty()) return;
  require<ConfigError>(
      c.kind == ModelKind::kGpt && !c.moe.num_moe_experts && !c.latent.multi_latent_attention &&
          !c.linear.any() && e.mtp_num_layers == 0,
      "hybrid_override_pattern is for kind gpt without experts, multi_latent_attention, linear attention and "
      "mtp_num_layers: leave one out");
  const auto other = e.hybrid_override_pattern.find_first_not_of("M*-");
  require<ConfigError>(
      other == std::string::npos,
      "hybrid_override_pattern has '{}': expected M (state-space layer), * (attention) or - (MLP)",
      other == std::string::npos ? ' ' : e.hybrid_override_pattern[other]);
  require<ConfigError>(static_cast<std::int64_t>(e.hybrid_override_pattern.size()) == c.num_layers,
                       "hybrid_override_pattern has {} letters, and num_layers is {}: expected one a layer",
                       e.hybrid_override_pattern.size(), c.num_layers);
  require<ConfigError>(e.mamba_num_heads || 2 * c.hidden_size % e.mamba_head_dim == 0,
                       "2 x hidden_size {} is not divisible by mamba_head_dim {}: give mamba_num_heads",
                       c.hidden_size, e.mamba_head_dim);
}

std::vector<std::string> only_estimated(const EstimatedConfig& e) {
  std::vector<std::string> out;
  const auto add = [&](bool has, std::string words) {
    if (has) out.push_back(std::move(words));
  };
  add(e.mtp_num_layers > 0, fmt::format("multi-token prediction (mtp_num_layers {})", e.mtp_num_layers));
  add(!e.hybrid_override_pattern.empty(), "state-space layers (hybrid_override_pattern)");
  add(e.fp8_params, "weights kept in 8 bits (fp8_params)");
  add(e.fp8_blocks != Fp8Blocks::kNone, "FP8 with a scale for each block of a tensor (fp8_blocks)");
  if (!e.recompute_modules.empty()) {
    std::vector<std::string_view> names;
    for (const RecomputedModule module : e.recompute_modules) names.push_back(config::enum_name(module));
    out.push_back(fmt::format("recomputation of {} alone (recompute_modules)", fmt::join(names, ", ")));
  }
  for (const auto& [type, key] :
       {std::pair(e.exp_avg_dtype, "exp_avg_dtype"), std::pair(e.exp_avg_sq_dtype, "exp_avg_sq_dtype"),
        std::pair(e.main_params_dtype, "main_params_dtype"),
        std::pair(e.main_grads_dtype, "main_grads_dtype")})
    add(type != StateType::kFp32,
        fmt::format("optimizer state or gradients in fewer than 32 bits ({})", key));
  add(e.use_tp_pp_dp_mapping, "ranks placed with data parallelism outermost (use_tp_pp_dp_mapping)");
  add(e.num_distributed_optimizer_instances > 1,
      fmt::format("optimizer state sharded over part of the data-parallel ranks "
                  "(num_distributed_optimizer_instances {})",
                  e.num_distributed_optimizer_instances));
  add(e.overlap_moe_expert_parallel_comm,
      "experts' communication during another microbatch (overlap_moe_expert_parallel_comm)");
  return out;
}

void require_trainable(const EstimatedConfig& e) {
  const auto lacking = only_estimated(e);
  require<ConfigError>(lacking.empty(),
                       "Stoa does not have {}: 'stoa plan' estimates it for Megatron-LM, and no run of Stoa "
                       "trains it",
                       fmt::join(lacking, "; "));
}

}  // namespace stoa::model
