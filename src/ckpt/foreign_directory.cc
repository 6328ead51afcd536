#include "ckpt/foreign_directory.h"

#include <string_view>

#include "base/file.h"
#include "ckpt/tensor_source.h"
#include "ckpt/torch/distributed_checkpoint.h"

namespace stoa::ckpt {

bool holds_rank_folders(const std::filesystem::path& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with(kRankFolder)) return true;
  return false;
}

std::filesystem::path zero_folder(const std::filesystem::path& directory) {
  std::filesystem::path folder = directory;
  std::error_code error;
  if (std::filesystem::is_regular_file(directory / kZeroTracker, error)) {
    const MappedFile tracker(directory / kZeroTracker);
    std::string_view name = tracker.text().substr(0, 256);
    name = name.substr(0, name.find_last_not_of(" \n") + 1);
    if (name.empty() || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
      return {};
    folder /= name;
  }
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().ends_with(kZeroPartition)) return folder;
  return {};
}

bool is_foreign_checkpoint(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path.extension() == ".nemo";
  return fs::is_regular_file(path / kNemoConfig, ignored) || fs::is_directory(path / kNemoContext, ignored) ||
         torch::DistributedCheckpoint::exists(path) ||
         fs::is_regular_file(path / kMegatronTracker, ignored) || holds_rank_folders(path) ||
         fs::is_regular_file(path / kUniversalTracker, ignored) || fs::is_directory(path / "zero", ignored) ||
         !zero_folder(path).empty();
}

bool holds_foreign_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  return is_foreign_checkpoint(path) &&
         !(std::filesystem::is_regular_file(path / "config.json", ignored) && holds_weights(path));
}

}  // namespace stoa::ckpt
