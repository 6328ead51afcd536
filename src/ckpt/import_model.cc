#include "ckpt/import_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ckpt/import_megatron.h"
#include "ckpt/import_torchtitan.h"
#include "ckpt/torch/distributed_checkpoint.h"

namespace stoa::ckpt {
namespace {

// The checkpoint that the tracker file of Megatron's folder names; the folder itself where it has none.
fs::path newest_iteration(const fs::path& directory) {
  const fs::path tracker = directory / "latest_checkpointed_iteration.txt";
  if (!fs::exists(tracker)) return directory;
  std::string text = read_text(tracker);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text == "release") return directory / text;
  std::int64_t iteration = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), iteration);
  require<DataError>(result.ec == std::errc() && result.ptr == text.data() + text.size() && iteration >= 0,
                     "'{}' holds '{}', and names an iteration or 'release'", tracker.string(),
                     text.substr(0, 40));
  return directory / fmt::format("iter_{:07}", iteration);
}

ImportedModel import_huggingface(const fs::path& directory) {
  ImportedModel out;
  out.kind = "Hugging Face";
  out.small_files = directory;
  out.config = read_text(directory / "config.json");
  out.source = open_weights(directory);
  for (const TensorEntry* entry : out.source->entries())
    out.tensors.push_back({*entry, {{entry, 0, entry->elements()}}});
  return out;
}

[[noreturn]] void fail_unknown_checkpoint(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(directory)) names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  const bool older = std::any_of(names.begin(), names.end(),
                                 [](const std::string& name) { return name.starts_with("mp_rank_"); });
  if (names.size() > 12) names.resize(12);
  fail<DataError>(
      "'{}' is no checkpoint that is imported: expected config.json with model.safetensors or "
      "pytorch_model.bin, or .metadata of torch.distributed.checkpoint (torchtitan, Megatron-Core's "
      "torch_dist); it holds {}{}",
      directory.string(), fmt::join(names, ", "),
      older ? "; Megatron's older format (mp_rank_…) is not imported yet: save it as torch_dist "
              "(--ckpt-convert-format torch_dist)"
            : "");
}

void write_tensor(const ImportedTensor& tensor, const TensorSource& source, ShardedWriter& writer,
                  std::vector<std::byte>& scratch, const std::function<void(std::uint64_t)>& written) {
  constexpr std::int64_t kPiece = 1 << 22;  // elements
  std::int64_t at = 0;
  for (const SourceRun& run : tensor.runs)
    for (std::int64_t done = 0; done < run.count; done += kPiece) {
      const std::int64_t n = std::min(kPiece, run.count - done);
      const auto bytes = source.elements(*run.tensor, run.begin + done, run.begin + done + n, scratch);
      writer.write_elements(tensor.entry.name, at, bytes);
      at += n;
      written(bytes.size());
    }
}

}  // namespace

ImportedModel open_import(const fs::path& given, const ImportOptions& options) {
  require<IoError>(fs::is_directory(given), "'{}' is not a directory", given.string());
  const fs::path directory = newest_iteration(given);
  require<IoError>(fs::is_directory(directory), "'{}' names '{}', which does not exist", given.string(),
                   directory.filename().string());
  if (torch::DistributedCheckpoint::exists(directory))
    return fs::exists(directory / "common.pt") ? import_megatron(directory, options)
                                               : import_torchtitan(directory, options);
  if (fs::exists(directory / "config.json") && holds_weights(directory)) return import_huggingface(directory);
  fail_unknown_checkpoint(directory);
}

ExportResult write_import(const ImportedModel& model, const fs::path& small_files, const fs::path& output,
                          std::uint64_t max_shard_bytes, const ExportProgress& progress) {
  ExportContent content{model.config, {}, nullptr};
  std::uint64_t total = 0, done = 0;
  for (const ImportedTensor& tensor : model.tensors) {
    content.tensors.push_back(tensor.entry);
    total += tensor.entry.bytes();
  }
  content.write = [&](ShardedWriter& writer) {
    std::vector<std::byte> scratch;
    for (const ImportedTensor& tensor : model.tensors)
      write_tensor(tensor, *model.source, writer, scratch, [&](std::uint64_t bytes) {
        done += bytes;
        if (progress) progress(done, total);
      });
  };
  return export_content(small_files, content, output, max_shard_bytes, progress);
}

}  // namespace stoa::ckpt
