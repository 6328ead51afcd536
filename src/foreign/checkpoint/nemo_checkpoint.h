// Checkpoints of NeMo: .nemo archives of NeMo 1 (and folders unpacked from them), and NeMo 2's folders with
// context/ and weights/.
#pragma once

#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

ForeignCheckpoint open_nemo(const fs::path& path, const ForeignOptions& options);

}  // namespace stoa::foreign
