// A bare Hugging Face directory out of any model that find_checkpoint() finds: weights converted tensor by
// tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "ckpt/find_checkpoint.h"
#include "ckpt/tensor_directory.h"

namespace stoa::ckpt {

struct ExportResult {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::size_t shards = 0;
};

// Gets bytes done and bytes in all. What it throws ends the export, of which nothing stays.
using ExportProgress = std::function<void(std::uint64_t, std::uint64_t)>;

// Writes config.json (its dtype changed, both spellings), tokenizer and other small files as they are, and
// all floating-point tensors as `dtype` (others unchanged). `output` must not exist or be empty; it appears
// complete or not at all. DataError: a finite weight does not fit `dtype` (fp16), by name.
ExportResult export_model(const FoundCheckpoint& from, DType dtype, const fs::path& output,
                          std::uint64_t max_shard_bytes = kDefaultShardBytes,
                          const ExportProgress& progress = nullptr);

// What stands in an exported directory in addition to the small files that are copied.
struct ExportContent {
  std::string config;  // config.json
  std::vector<TensorEntry> tensors;
  std::function<void(ShardedWriter&)> write;  // all of them
};
// The same with another content than the model's own tensors under their names. `progress` is asked a last
// time right before the directory appears; what is written before that tells its progress itself.
ExportResult export_content(const FoundCheckpoint& from, const ExportContent& content, const fs::path& output,
                            std::uint64_t max_shard_bytes = kDefaultShardBytes,
                            const ExportProgress& progress = nullptr);

}  // namespace stoa::ckpt
