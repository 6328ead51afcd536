// A GGUF file out of any model: for llama.cpp and what is built on it.
#pragma once

#include <string>
#include <vector>

#include "ckpt/export_model.h"
#include "run/importance.h"

namespace stoa::run {

struct GgufExport {
  std::string architecture;
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;  // of the file
  std::vector<std::string> notes;
};

// `format`: a mixture (model/gguf/mixtures.h), or "" for a GGUF file whose numbers stay as they are: then the
// file is written again, byte for byte. `output` must not exist. ConfigError: no architecture of GGUF
// can say the model, or no format of that name. DataError: a tokenizer that GGUF cannot say.
GgufExport export_gguf(const ckpt::FoundCheckpoint& from, const std::string& format, const fs::path& output,
                       const Importance* importance = nullptr,
                       const ckpt::ExportProgress& progress = nullptr);

}  // namespace stoa::run
