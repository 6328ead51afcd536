#include "curate/run/shard.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "curate/run/sidecar.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kWaitingBytes = std::size_t{1} << 20;
constexpr std::size_t kTagsPlace = kFolders.size(), kSidePlace = kTagsPlace + 1;  // places in lines_

}  // namespace

Shard::Shard(fs::path directory, std::int64_t number, const char* tags_folder, bool with_side)
    : directory_(std::move(directory)), number_(number), with_side_(with_side) {
  for (std::size_t i = 0; i < kFolders.size(); ++i) lines_[i].folder = kFolders[i];
  lines_[kTagsPlace].folder = tags_folder;
  lines_[kSidePlace].folder = "side";
}

void Shard::add_line(Lines& to, std::string_view line, const char* extension) {
  ++to.count;
  to.waiting += line;
  if (!to.file) {
    fs::create_directories(directory_ / to.folder);
    to.file =
        std::make_unique<AtomicFile>(directory_ / to.folder / fmt::format("{:05}.{}", number_, extension));
  }
  if (to.waiting.size() < kWaitingBytes) return;
  to.file->write(to.waiting);
  to.waiting.clear();
}

void Shard::add(Fate fate, std::string_view line, std::string_view side, std::string_view tags) {
  add_line(lines_[static_cast<std::size_t>(fate)], line);
  if (!tags.empty()) add_tags(tags);
  if (!with_side_) return;
  fates_ += static_cast<char>(fate);
  add_line(lines_[kSidePlace], side, "bin");
}

std::vector<OutputFile> Shard::commit() {
  std::vector<OutputFile> files;
  if (with_side_) add_line(lines_[kSidePlace], sidecar_end(fates_), "bin");
  for (Lines& lines : lines_) {
    if (!lines.file) continue;
    lines.file->write(lines.waiting);
    lines.file->commit();
    if (&lines == &lines_[kSidePlace]) continue;
    const fs::path& path = lines.file->path();
    files.push_back({fmt::format("{}/{}", lines.folder, path.filename().string()), lines.count,
                     fs::file_size(path), checksum_file(path)});
  }
  return files;
}

}  // namespace stoa::curate
