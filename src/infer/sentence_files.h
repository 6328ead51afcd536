// The files by which a sentence-transformers directory says, besides the model, how vectors of texts are
// made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/task_config.h"

namespace stoa::infer {

using model::Pooling;

struct SentenceOptions {
  std::optional<Pooling> pooling;  // none: not said
  std::int64_t max_length = 0;     // 0: not said
  bool normalises = false;
};

bool is_sentence_folder(const std::filesystem::path& directory);

// `pooled`: the pooling is asked for; otherwise it may be one that is not supported. ConfigError, DataError.
SentenceOptions read_sentence_files(const std::filesystem::path& directory, bool pooled);

// Names, with folders, and contents: vectors are scaled to length 1.
std::vector<std::pair<std::string, std::string>> sentence_files(Pooling pooling, std::int64_t width,
                                                                std::int64_t max_length);

}  // namespace stoa::infer
