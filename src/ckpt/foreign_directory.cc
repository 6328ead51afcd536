#include "ckpt/foreign_directory.h"

#include "ckpt/torch/distributed_checkpoint.h"

namespace stoa::ckpt {

bool holds_rank_folders(const std::filesystem::path& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with(kRankFolder)) return true;
  return false;
}

bool is_foreign_checkpoint(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path.extension() == ".nemo";
  return fs::is_regular_file(path / kNemoConfig, ignored) || fs::is_directory(path / kNemoContext, ignored) ||
         torch::DistributedCheckpoint::exists(path) ||
         fs::is_regular_file(path / kMegatronTracker, ignored) || holds_rank_folders(path) ||
         fs::is_regular_file(path / kUniversalTracker, ignored) || fs::is_directory(path / "zero", ignored);
}

}  // namespace stoa::ckpt
