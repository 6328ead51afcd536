#include "train/rank_view.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/checksum.h"
#include "base/error.h"
#include "ckpt/find_checkpoint.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlocks = 64;  // of a large file, evenly spread, the first and the last among them
constexpr std::int64_t kBlock = 64 << 10;  // bytes
constexpr std::int64_t kSamples = 32;      // of a data set, likewise

std::string line_of_file(const fs::path& path) {
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) return fmt::format("{}: {}\n", path.string(), error.message());
  std::ifstream file(path, std::ios::binary);
  std::string content;
  for (std::int64_t b = 0; b < kBlocks && file; ++b) {
    const std::int64_t at = bytes <= kBlocks * kBlock ? b * kBlock : (bytes - kBlock) / (kBlocks - 1) * b;
    if (at >= bytes) break;
    const std::size_t before = content.size();
    content.resize(before + static_cast<std::size_t>(std::min(kBlock, bytes - at)));
    file.seekg(at);
    file.read(content.data() + before, static_cast<std::streamsize>(content.size() - before));
  }
  return fmt::format("{}: {} bytes, content {}\n", path.string(), bytes,
                     file ? checksum_text(checksum(content)) : "cannot be read");
}

// A prefix names two files; of a labelled task it is one.
std::string lines_of_prefix(const std::string& prefix) {
  std::error_code ignored;
  if (fs::is_regular_file(prefix, ignored)) return line_of_file(prefix);
  return line_of_file(prefix + ".idx") + line_of_file(prefix + ".bin");
}

template <class T>
std::uint64_t checksum_of(const std::vector<T>& values) {
  return checksum(std::as_bytes(std::span(values)));
}

std::string line_of_samples(const char* name, const data::Dataset* dataset) {
  if (!dataset || dataset->size() == 0) return fmt::format("{}: no samples\n", name);
  const std::int64_t size = dataset->size(), count = std::min(size, kSamples);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (size - 1) / (count - 1));
  std::string content;
  try {
    data::Batch batch;
    data::fill_batch(*dataset, rows, batch);
    content = "content " +
              checksum_text(checksum(fmt::format("{:x} {:x} {:x}", checksum_of(batch.tokens),
                                                 checksum_of(batch.labels), checksum_of(batch.loss_mask))));
  } catch (const DataError& error) {  // whoever reads it in the run tells
    content = error.what();
  }
  return fmt::format("{}: {} samples, {}\n", name, size, content);
}

}  // namespace

std::string view_of_data(const RunConfig& config, const RunInputs& inputs) {
  std::string text;
  const data::DataPrefix& prefixes = config.data.data_prefix;
  for (const auto* list : {&prefixes.blend, &prefixes.train, &prefixes.validation})
    for (const data::WeightedPrefix& part : *list) text += lines_of_prefix(part.prefix);
  for (const auto* files : {&config.chats.train_ds.file_names, &config.chats.validation_ds.file_names})
    for (const std::string& file : *files) text += line_of_file(file);
  text += line_of_samples("training", inputs.data.datasets.train.get());
  text += line_of_samples("validation", inputs.data.datasets.validation.get());
  return text;
}

std::string view_of_tokenizer(const RunInputs& inputs) {
  if (!inputs.tokenizer) return "no tokenizer";
  return fmt::format("{} tokens, fingerprint {}", inputs.tokenizer->vocab_size(),
                     inputs.tokenizer->fingerprint());
}

std::string view_of_start(const RunConfig& config, const StartingPoint& start) {
  std::string text;
  const auto directory = run_directory(config);
  std::error_code ignored;
  const fs::path checkpoints = directory ? fs::path(*directory) / "checkpoints" : fs::path();
  if (directory && fs::exists(checkpoints, ignored))
    for (const ckpt::ListedCheckpoint& listed : ckpt::list_checkpoints(checkpoints))
      text += "checkpoint " + line_of_file(listed.path / "state" / "manifest.json");
  if (text.empty()) text = fmt::format("no checkpoint in '{}'\n", checkpoints.string());
  if (!start.weights) return text;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(start.weights->model))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) text += "weights " + line_of_file(file);
  return text;
}

}  // namespace stoa::train
