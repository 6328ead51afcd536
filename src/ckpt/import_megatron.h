// Megatron-Core's GPT models of Llama's kind, in torch_dist checkpoints of any layout.
#pragma once

#include "ckpt/import_model.h"

namespace stoa::ckpt {

// `directory` holds .metadata, metadata.json and common.pt. Errors as open_import.
ImportedModel import_megatron(const fs::path& directory, const ImportOptions& options);

}  // namespace stoa::ckpt
