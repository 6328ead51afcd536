#include "train/run_directory.h"

#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace stoa::train {
namespace {

std::filesystem::path whole_path(const std::filesystem::path& path) {
  const auto whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();  // "runs/a/" names runs/a
}

}  // namespace

void RunDirectory::make() {
  std::error_code error;
  for (auto path = whole_path(path_); !path.empty() && !std::filesystem::exists(path, error);
       path = path.parent_path())
    made_ = path;
  std::filesystem::create_directories(path_, error);
  require<IoError>(!error, "cannot create the run directory '{}': {}", path_.string(), error.message());
  remove_abandoned(path_);
}

void RunDirectory::discard() noexcept {
  if (!is_new()) return;
  std::error_code ignored;
  auto path = whole_path(path_);
  std::filesystem::remove_all(path, ignored);
  while (path != made_ && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
    if (!std::filesystem::remove(path, ignored)) return;  // another process put something there
  }
}

}  // namespace stoa::train
