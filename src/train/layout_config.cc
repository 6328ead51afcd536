#include "train/layout_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "schedule/generators.h"

namespace stoa::train {

using config::EnumName;
using config::Section;

std::span<const EnumName<ContextCommunication>> enum_names(ContextCommunication) {
  static constexpr EnumName<ContextCommunication> kNames[] = {
      {"p2p", ContextCommunication::kP2p},
      {"all_gather", ContextCommunication::kAllGather},
      {"a2a", ContextCommunication::kA2a},
      {"a2a+p2p", ContextCommunication::kA2aP2p}};
  return kNames;
}

std::span<const EnumName<GradReduceType>> enum_names(GradReduceType) {
  static constexpr EnumName<GradReduceType> kNames[] = {{"fp32", GradReduceType::kFp32},
                                                        {"bf16", GradReduceType::kBf16}};
  return kNames;
}

namespace {

std::string known_schedule(const std::optional<std::string>& name) {
  const auto names = schedule::run_schedule_names();
  if (!name || std::find(names.begin(), names.end(), *name) != names.end()) return "";
  return fmt::format("one of {}{}", fmt::join(names, ", "), did_you_mean(*name, names));
}

}  // namespace

void declare(Section<LayoutConfig>& s) {
  using C = LayoutConfig;
  s.field("tensor_model_parallel_size", &C::tensor_model_parallel_size)
      .range(1, kMaxRanks)
      .help("Tensor parallelism: ranks that share every layer; each holds some of its heads and columns.");
  s.field("pipeline_model_parallel_size", &C::pipeline_model_parallel_size)
      .range(1, kMaxRanks)
      .help("Pipeline parallelism: stages, each of which holds some of the layers.");
  s.field("context_parallel_size", &C::context_parallel_size)
      .range(1, kMaxRanks)
      .help(
          "Context parallelism: ranks that share every sequence; each holds an early and a late piece of it. "
          "Twice this number must divide the sequence length.");
  s.field("cp_comm_type", &C::cp_comm_type)
      .help(
          "How attention gets the keys of the other ranks of a sequence: p2p sends them around in a ring, "
          "all_gather collects all keys on every rank, a2a exchanges tokens for heads, a2a+p2p does that "
          "among neighbours and uses the ring between their groups.");
  s.field("hierarchical_context_parallel_sizes", &C::hierarchical_context_parallel_sizes)
      .length(2)
      .range(1, kMaxRanks)
      .help(
          "With cp_comm_type a2a+p2p: ranks that exchange tokens for heads, and how many such groups there "
          "are. Their product is context_parallel_size.");
  s.validate({"cp_comm_type", "hierarchical_context_parallel_sizes", "context_parallel_size"}, [](const C&
                                                                                                      c) {
    const bool hierarchical = c.cp_comm_type == ContextCommunication::kA2aP2p;
    const auto& sizes = c.hierarchical_context_parallel_sizes;
    require<ConfigError>(
        hierarchical == sizes.has_value(),
        "hierarchical_context_parallel_sizes and cp_comm_type a2a+p2p belong together: give both or neither");
    if (!sizes) return;
    const std::int64_t ranks = sizes->front() * sizes->back();
    require<ConfigError>(ranks == c.context_parallel_size,
                         "hierarchical_context_parallel_sizes {} have the product {}, expected "
                         "context_parallel_size {}",
                         fmt::join(*sizes, " x "), ranks, c.context_parallel_size);
  });
  s.field("expert_model_parallel_size", &C::expert_model_parallel_size)
      .range(1, kMaxRanks)
      .help(
          "Expert parallelism: groups of ranks over which the experts of a layer are distributed. They are "
          "the ranks of the other axes, so this does not change the number of ranks.");
  s.field("expert_tensor_parallel_size", &C::expert_tensor_parallel_size)
      .range(1, kMaxRanks)
      .derived("tensor_model_parallel_size")
      .help("Ranks that share every expert; each holds some of its columns.");
  s.field("sequence_parallel", &C::sequence_parallel)
      .help(
          "Sequence parallelism: between the matrices of a layer, split tokens over the tensor-parallel "
          "ranks: less memory, the same results. No effect with one such rank.");
  s.field("virtual_pipeline_model_parallel_size", &C::virtual_pipeline_model_parallel_size)
      .range(1, 1024)
      .derived("1, or what the schedule needs")
      .help("Chunks of layers per stage, for schedules with several.");
  s.field("pipeline_schedule", &C::pipeline_schedule)
      .check(known_schedule)
      .derived("1f1b, or interleaved where there are several chunks per stage")
      .help("Pipeline schedule ('stoa schedule show' draws it). It never changes results.");
  s.field("microbatch_group_size_per_vp_stage", &C::microbatch_group_size_per_vp_stage)
      .range(1, kMaxRanks)
      .derived("the number of stages")
      .help("Interleaved schedules: consecutive microbatches of one chunk.");
  s.field("pipeline_layers", &C::pipeline_layers)
      .range(0, kMaxRanks)
      .derived("equally many")
      .help("Layers of every chunk in model order, where the numbers differ.");
  s.field("pipeline_model_parallel_split_rank", &C::pipeline_model_parallel_split_rank)
      .range(0, kMaxRanks)
      .derived("none: stages have equally many layers, wherever the encoder ends")
      .help(
          "Kind t5: number of stages that hold the encoder; the others hold the decoder, with equally many "
          "layers each.");
  s.field("account_for_embedding_in_pipeline_split", &C::account_for_embedding_in_pipeline_split)
      .help("Count the embedding as a layer of the first chunk when layers are distributed.");
  s.field("account_for_loss_in_pipeline_split", &C::account_for_loss_in_pipeline_split)
      .help("Count the head as a layer of the last chunk when layers are distributed.");
  s.field("zero_stage", &C::zero_stage)
      .range(0, 3)
      .help(
          "What ZeRO shards over data-parallel ranks instead of replicating it: 0 nothing, 1 the optimizer "
          "state, 2 also gradients, 3 also parameters. It never changes results.");
}

void declare(Section<ShardingConfig>& s) {
  using C = ShardingConfig;
  s.field("bucket_cap_mb", &C::bucket_cap_mb)
      .above(0)
      .range(0, 1 << 20)
      .unit("MiB")
      .help("Size of the gradient buckets that are reduced together. It never changes results.");
  s.field("overlap_grad_sync", &C::overlap_grad_sync)
      .alias("overlap_grad_reduce")
      .help("Reduce gradients over ranks during the backward pass. It never changes results.");
  s.field("reduce_each_microbatch", &C::reduce_each_microbatch)
      .help(
          "zero_stage 2 and 3: reduce gradients over ranks after every microbatch, so that a rank holds only "
          "its shard. The sums are the same up to rounding.");
  s.field("grad_reduce_type", &C::grad_reduce_type)
      .alias("grad_sync_dtype")
      .derived("fp32, the type of the gradients")
      .help("Type in which gradients are sent between ranks: bf16 halves the bytes and rounds them.");
}

}  // namespace stoa::train
