// torchtitan's Llama models, in checkpoints of torch.distributed.checkpoint.
#pragma once

#include "ckpt/import_model.h"

namespace stoa::ckpt {

// Numbers of heads, the base of rotary positions and the epsilon of norms are not in the checkpoint: they
// come from options.config, or from params.json or config.json in the directory. Errors as open_import.
ImportedModel import_torchtitan(const fs::path& directory, const ImportOptions& options);

}  // namespace stoa::ckpt
