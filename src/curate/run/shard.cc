#include "curate/run/shard.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "curate/run/sidecar.h"

namespace stoa::curate {

void Shard::add(Fate fate, std::string_view line, std::string_view side) {
  content_[static_cast<std::size_t>(fate)] += line;
  ++documents_[static_cast<std::size_t>(fate)];
  fates_ += static_cast<char>(fate);
  side_ += side;
}

std::vector<OutputFile> Shard::commit() {
  std::vector<OutputFile> files;
  for (std::size_t i = 0; i < content_.size(); ++i) {
    if (documents_[i] == 0) continue;
    const OutputFile file{fmt::format("{}/{:05}.jsonl", kFolders[i], number_), documents_[i],
                          content_[i].size(), checksum(content_[i])};
    fs::create_directories(directory_ / kFolders[i]);
    write_text(directory_ / file.name, content_[i]);
    files.push_back(file);
  }
  if (with_side_) {
    fs::create_directories(directory_ / "side");
    write_text(directory_ / fmt::format("side/{:05}.bin", number_), sidecar_content(fates_, side_));
  }
  return files;
}

}  // namespace stoa::curate
