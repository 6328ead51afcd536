#include "curate/run/shard.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "curate/run/sidecar.h"
#include "curate/run/tags.h"

namespace stoa::curate {

void Shard::add(Fate fate, std::string_view line, std::string_view side, std::string_view tags) {
  content_[static_cast<std::size_t>(fate)] += line;
  ++documents_[static_cast<std::size_t>(fate)];
  fates_ += static_cast<char>(fate);
  side_ += side;
  tags_ += tags;
  tagged_ += !tags.empty();
}

std::vector<OutputFile> Shard::commit() {
  std::vector<OutputFile> files;
  const auto write = [&](const std::string& folder, const std::string& content, std::int64_t documents) {
    if (documents == 0) return;
    files.push_back(
        {fmt::format("{}/{:05}.jsonl", folder, number_), documents, content.size(), checksum(content)});
    fs::create_directories(directory_ / folder);
    write_text(directory_ / files.back().name, content);
  };
  for (std::size_t i = 0; i < content_.size(); ++i) write(kFolders[i], content_[i], documents_[i]);
  write(kTagsFolder, tags_, tagged_);
  if (with_side_) {
    fs::create_directories(directory_ / "side");
    write_text(directory_ / fmt::format("side/{:05}.bin", number_), sidecar_content(fates_, side_));
  }
  return files;
}

}  // namespace stoa::curate
