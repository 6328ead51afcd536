#include "base/made_directories.h"

#include <system_error>

#include "base/error.h"

namespace stoa {
namespace {

std::filesystem::path whole_path(const std::filesystem::path& path) {
  const auto whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();  // "runs/a/" names runs/a
}

}  // namespace

std::filesystem::path make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path highest;
  for (auto at = whole_path(path); !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path())
    highest = at;
  std::filesystem::create_directories(path, error);
  require<IoError>(!error, "cannot create the directory '{}': {}", path.string(), error.message());
  return highest;
}

void remove_made_directories(const std::filesystem::path& path,
                             const std::filesystem::path& highest) noexcept {
  if (highest.empty()) return;
  std::error_code error;
  auto at = whole_path(path);
  std::filesystem::remove(at, error);
  while (!error && at != highest && at.has_parent_path() && at != at.parent_path()) {
    at = at.parent_path();
    std::filesystem::remove(at, error);
  }
}

}  // namespace stoa
