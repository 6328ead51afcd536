// Exports any model that find_checkpoint() finds as a plain Hugging Face directory: weights are converted
// tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/find_checkpoint.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

struct ExportResult {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::size_t shards = 0;
};

// Called with bytes done and total bytes. An exception from it aborts the export and removes its files.
using ExportProgress = std::function<void(std::uint64_t, std::uint64_t)>;

// config.json at `path` with the dtype of other weights, in both spellings of transformers.
std::string config_with_type(const fs::path& path, DType dtype);

// Writes config.json (with the new dtype, in both spellings), copies of the tokenizer and other small files,
// and all floating-point tensors as `dtype` (others unchanged). `output` must not exist or be empty; it
// appears complete or not at all. DataError names a finite weight that does not fit `dtype` (fp16).
ExportResult export_model(const FoundCheckpoint& from, DType dtype, const fs::path& output,
                          std::uint64_t max_shard_bytes = kDefaultShardBytes,
                          const ExportProgress& progress = nullptr);

// A directory that appears complete or not at all: `write` fills another next to it. `output` must not exist
// or be empty (IoError). `last` may still throw.
void write_complete(const fs::path& output, const std::function<void(const fs::path& staging)>& write,
                    const std::function<void()>& last);
// A folder next to `output` for what is made on the way to it; it is gone when `use` returns or throws.
void with_staging(const fs::path& output, const std::function<void(const fs::path& staging)>& use);

// Writes every tensor of `source`, piece by piece as it is stored: none is held as a whole.
void write_elements_of(const TensorSource& source, ShardedWriter& writer, const ExportProgress& progress);
// Whether a file of a model directory holds weights or what belongs to them: it is written again, not copied.
bool is_made_anew(const fs::path& path);

struct SmallFile {
  std::string name, text;  // "tokenizer.json"; may be in a folder
};
// Files of a model directory that belong to no weights, and templates of chats in the folder
// additional_chat_templates. Empty where it is not a directory.
std::vector<std::string> small_file_names(const fs::path& directory);
std::vector<SmallFile> small_files_of(const fs::path& directory);
// Whether a file of that name is a template of chats, which belongs to the tokenizer.
bool is_chat_template(const std::string& name);
// The content of an exported directory in addition to the small files that are copied.
struct ExportContent {
  std::string config;  // config.json
  std::vector<TensorEntry> tensors;
  std::function<void(ShardedWriter&)> write;  // all of them
  std::vector<SmallFile> texts = {};          // such as a tokenizer's; in place of small files of their names
  // A directory that holds an adapter has other names, and no checksums of a model.
  std::string_view stem = kModelStem;
  std::string config_name = "config.json";
};
// The same with other content than the model's own tensors under their names. `small_files`: the directory
// whose tokenizer and other small files are copied; empty, or a file: none are. `progress` is called a last
// time right before the directory appears; before that, content.write is expected to report progress itself.
ExportResult export_content(const fs::path& small_files, const ExportContent& content, const fs::path& output,
                            std::uint64_t max_shard_bytes = kDefaultShardBytes,
                            const ExportProgress& progress = nullptr);

}  // namespace stoa::ckpt
