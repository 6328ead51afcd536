// Writes checkpoints that Megatron-Core loads in any layout: torch_dist, with the optimizer's state in the
// form that changes layouts (fully_reshardable).
#pragma once

#include <filesystem>

#include "foreign/checkpoint/torch_dist_writing.h"

namespace stoa::foreign {

// `output`, new or empty, becomes a folder of checkpoints as --save makes them: iter_0000100 and the tracker
// file; `release` without an optimizer's state. ConfigError: Megatron has no such model, or its experts are
// not divided by `form.expert_ranks`.
MegatronExport write_megatron(const model::ModelSpec& spec, const CanonicalState& state,
                              const MegatronForm& form, const std::filesystem::path& output,
                              const ckpt::ExportProgress& progress);

}  // namespace stoa::foreign
