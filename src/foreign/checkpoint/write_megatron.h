// Writes checkpoints that Megatron-Core loads in any layout: torch_dist, with the optimizer's state in the
// form that changes layouts (fully_reshardable).
#pragma once

#include "ckpt/export_model.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/megatron_args.h"

namespace stoa::foreign {

// Sources of canonical tensors (rearranged() to stoa_family()). The last three are null for weights alone.
struct CanonicalState {
  std::shared_ptr<const ckpt::TensorSource> weights, master, exp_avg, exp_avg_sq;
  MegatronCounters counters;
  AdamSettings adam;
};

struct MegatronForm {
  DType type = DType::kBF16;  // of the weights
  std::uint64_t max_file_bytes = ckpt::kDefaultShardBytes;
  // --expert-model-parallel-size of the command that loads it. With several expert ranks, Megatron has an
  // optimizer of its own for the experts, and loads neither form in place of the other.
  std::int64_t expert_ranks = 1;
};

struct MegatronExport {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
};
// `output`, new or empty, becomes a folder of checkpoints as --save makes them: iter_0000100 and the tracker
// file; `release` without an optimizer's state. ConfigError: Megatron has no such model, or its experts are
// not divided by `form.expert_ranks`.
MegatronExport write_megatron(const model::ModelSpec& spec, const CanonicalState& state,
                              const MegatronForm& form, const std::filesystem::path& output,
                              const ckpt::ExportProgress& progress);

}  // namespace stoa::foreign
