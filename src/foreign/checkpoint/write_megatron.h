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

struct MegatronExport {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
};
// `output`, new or empty, becomes a folder of checkpoints as --save makes them: iter_0000100 and the tracker
// file; `release` without an optimizer's state. `type`: of the weights. ConfigError: Megatron has no such
// model.
MegatronExport write_megatron(const model::ModelSpec& spec, const CanonicalState& state, DType type,
                              const std::filesystem::path& output, std::uint64_t max_file_bytes,
                              const ckpt::ExportProgress& progress);

}  // namespace stoa::foreign
