// A single file of torch.save with the state_dict of a model of Hugging Face's, whose config.json is another
// file.
#pragma once

#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

// By its name: model.pt, consolidated.pth, pytorch_model.bin.
bool is_state_file(const fs::path& path);
// DataError: no config.json is given or next to it; the tensors are others than it describes.
ForeignCheckpoint open_state_file(const fs::path& file, const ForeignOptions& options);

}  // namespace stoa::foreign
