// torchtitan's Llama models, in checkpoints of torch.distributed.checkpoint.
#pragma once

#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

// Numbers of heads, the base of rotary positions and the epsilon of norms are not in the checkpoint: they
// come from options.config, or from params.json or config.json in the directory. Errors as open_foreign.
ForeignCheckpoint open_torchtitan(const fs::path& directory, const ForeignOptions& options);

}  // namespace stoa::foreign
