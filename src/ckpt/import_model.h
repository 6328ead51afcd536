// Checkpoints of other programs as Hugging Face models: which elements of which of their tensors make up each
// tensor of the model, and its config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/export_model.h"
#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

// `count` elements of a tensor of the checkpoint, in row-major order.
struct SourceRun {
  const TensorEntry* tensor = nullptr;
  std::int64_t begin = 0, count = 0;
};
struct ImportedTensor {
  TensorEntry entry;
  std::vector<SourceRun> runs;  // in the order of its elements
};

struct ImportedModel {
  std::string kind;    // "Megatron-Core, torch_dist", for messages
  std::string config;  // config.json
  std::unique_ptr<TensorSource> source;
  std::vector<ImportedTensor> tensors;
  std::optional<fs::path> small_files;  // a directory with its tokenizer
  std::vector<std::string> notes;       // what the user should know, such as a vocabulary that stays padded
};

struct ImportOptions {
  std::optional<fs::path> config;          // where the checkpoint does not hold the model's shape
  std::optional<std::int64_t> vocabulary;  // entries that are not padding
};

// Finds out whose checkpoint the directory is, and reads all but the weights. IoError, DataError: none that
// is read (the message says what was found), tensors that are missing, of another shape, or that nobody
// knows.
ImportedModel open_import(const fs::path& directory, const ImportOptions& options);

// Writes a Hugging Face directory of it; `small_files`: a directory whose tokenizer files are copied, or
// empty. As export_model: complete or not at all.
ExportResult write_import(const ImportedModel& model, const fs::path& small_files, const fs::path& output,
                          std::uint64_t max_shard_bytes = kDefaultShardBytes,
                          const ExportProgress& progress = nullptr);

}  // namespace stoa::ckpt
