// How a model is distributed over ranks: keys under `model` and `model.optim`, as in Megatron and NeMo.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::train {

inline constexpr double kMaxRanks = 1 << 20;  // for any axis, and for a node

// How attention gets the keys on other ranks (parallel::ContextKind), by Megatron's names.
enum class ContextCommunication { kP2p, kAllGather, kA2a, kA2aP2p };
std::span<const config::EnumName<ContextCommunication>> enum_names(ContextCommunication);

struct LayoutConfig {  // model.*
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  ContextCommunication cp_comm_type = ContextCommunication::kP2p;
  std::optional<std::vector<std::int64_t>> hierarchical_context_parallel_sizes;
  std::int64_t expert_model_parallel_size = 1;
  std::optional<std::int64_t> expert_tensor_parallel_size;  // null: tensor_model_parallel_size
  bool sequence_parallel = false;
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;  // chunks per stage
  std::optional<std::string> pipeline_schedule;                      // of schedule::run_schedule_names()
  std::optional<std::int64_t> microbatch_group_size_per_vp_stage;
  std::optional<std::vector<std::int64_t>> pipeline_layers;        // of every chunk in model order
  std::optional<std::int64_t> pipeline_model_parallel_split_rank;  // null, 0: none
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::int64_t zero_stage = 0;
};

enum class GradReduceType { kFp32, kBf16 };
std::span<const config::EnumName<GradReduceType>> enum_names(GradReduceType);

struct ShardingConfig {  // model.optim.*
  double bucket_cap_mb = 160;
  bool overlap_grad_sync = false;
  bool reduce_each_microbatch = false;
  std::optional<GradReduceType> grad_reduce_type;  // null: as held
};

void declare(config::Section<LayoutConfig>& s);
void declare(config::Section<ShardingConfig>& s);

}  // namespace stoa::train
