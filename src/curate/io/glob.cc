#include "curate/io/glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <span>

namespace stoa::curate {
namespace {

using Pieces = std::span<const std::string>;

bool matches_name(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

void expand(const fs::path& base, Pieces pieces, std::vector<fs::path>& found) {
  if (pieces.empty()) {
    found.push_back(base);
    return;
  }
  const std::string& piece = pieces.front();
  const Pieces rest = pieces.subspan(1);
  std::error_code error;
  if (!is_pattern(piece)) {
    if (fs::exists(base / piece, error)) expand(base / piece, rest, found);
    return;
  }
  const fs::path folder = base.empty() ? fs::path(".") : base;
  const bool any_depth = piece == "**";
  if (any_depth && !rest.empty()) expand(base, rest, found);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_folder = entry.is_directory(error);
    if (any_depth) {
      if (name.starts_with('.') || entry.is_symlink(error)) continue;
      if (is_folder)
        expand(base / name, pieces, found);
      else if (rest.empty())
        found.push_back(base / name);
    } else if (matches_name(piece, name) && (rest.empty() || is_folder)) {
      expand(base / name, rest, found);
    }
  }
}

}  // namespace

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

std::vector<fs::path> expand_pattern(const std::string& pattern) {
  const bool absolute = pattern.starts_with('/');
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    if (end > at) pieces.push_back(pattern.substr(at, end - at));
    at = end + 1;
  }
  std::vector<fs::path> found;
  expand(absolute ? fs::path("/") : fs::path(), pieces, found);
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace stoa::curate
