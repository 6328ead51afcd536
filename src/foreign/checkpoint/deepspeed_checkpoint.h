// DeepSpeed's universal checkpoints of Megatron-DeepSpeed: a folder for every parameter, whole, with its fp32
// value and Adam's moments.
#pragma once

#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

// `directory` holds zero/ and mp_rank_00_model_states.pt. Errors as open_foreign.
ForeignCheckpoint open_deepspeed_universal(const fs::path& directory, const ForeignOptions& options);
// The folder that latest_universal names; empty: there is no such file.
fs::path newest_universal(const fs::path& directory);

}  // namespace stoa::foreign
