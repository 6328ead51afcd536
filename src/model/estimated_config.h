// What Megatron-LM and NeMo train and Stoa does not: their keys under `model`. Plans estimate it for
// Megatron-LM (plan/memory_estimate.h, plan/layer_time.h); no run of Stoa has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"
#include "model/config.h"

namespace stoa::model {

// Types of what an optimizer keeps, and of the gradients that it reads.
enum class StateType { kFp32, kBf16, kFp16, kFp8 };
std::span<const config::EnumName<StateType>> enum_names(StateType);
std::int64_t bytes_of(StateType type);

// FP8 with a scale for each block of a tensor: of 128 x 128, or of 32 numbers.
enum class Fp8Blocks { kNone, kBlockwise, kMxfp8 };
std::span<const config::EnumName<Fp8Blocks>> enum_names(Fp8Blocks);

// Parts of a layer that selective recomputation names.
enum class RecomputedModule { kUpProjections, kMlp, kMoe, kSharedExperts };
std::span<const config::EnumName<RecomputedModule>> enum_names(RecomputedModule);

struct EstimatedConfig {
  std::int64_t mtp_num_layers = 0;  // each predicts one token more
  bool fp8_params = false;
  Fp8Blocks fp8_blocks = Fp8Blocks::kNone;
  // A letter a layer: M has a state-space layer alone, * attention, - an MLP. Empty: all have attention and
  // MLP.
  std::string hybrid_override_pattern;
  std::int64_t mamba_state_dim = 128, mamba_head_dim = 64, mamba_num_groups = 8;
  std::optional<std::int64_t> mamba_num_heads;  // null: 2 hidden_size / mamba_head_dim
  std::vector<RecomputedModule> recompute_modules;
  StateType exp_avg_dtype = StateType::kFp32, exp_avg_sq_dtype = StateType::kFp32,
            main_params_dtype = StateType::kFp32, main_grads_dtype = StateType::kFp32;
  bool use_tp_pp_dp_mapping = false;                     // stages are neighbours, replicas far apart
  std::int64_t num_distributed_optimizer_instances = 1;  // groups of replicas, each with all of its state
  bool overlap_moe_expert_parallel_comm = false;

  std::int64_t layers_of(char kind) const;  // of the pattern
};

void declare_estimated(config::Section<EstimatedConfig>& s);
// ConfigError where keys contradict each other or the model.
void validate(const EstimatedConfig& e, const ModelConfig& model);

// What of it Stoa does not have, a phrase each; empty: nothing is asked for.
std::vector<std::string> only_estimated(const EstimatedConfig& e);
// ConfigError that names them.
void require_trainable(const EstimatedConfig& e);

}  // namespace stoa::model
