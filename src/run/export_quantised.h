// Hugging Face directories with quantised matrices: what transformers and vLLM load with compressed-tensors
// or bitsandbytes.
#pragma once

#include <string>
#include <vector>

#include "ckpt/export_model.h"

namespace stoa::run {

// "int8", "fp8": a scale for every output (compressed-tensors); "nf4": blocks of 64 (bitsandbytes).
std::vector<std::string> quantised_formats();

// Matrices of linear layers in `format`; embeddings, head, norms and biases in bf16. Otherwise as
// ckpt::export_content(). ConfigError: no such format, or the family's layers are not stored as plain
// matrices.
ckpt::ExportResult export_quantised(const ckpt::FoundCheckpoint& from, const std::string& format,
                                    const std::filesystem::path& output,
                                    const ckpt::ExportProgress& progress = nullptr);

}  // namespace stoa::run
