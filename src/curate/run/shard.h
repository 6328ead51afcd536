// The files of one shard: written together, visible once all are complete.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "curate/run/process.h"
#include "curate/run/tags.h"

namespace stoa::curate {

struct OutputFile {
  std::string name;  // "kept/00000.jsonl"
  std::int64_t documents = 0;
  std::uint64_t bytes = 0, checksum = 0;
};

inline constexpr std::array<const char*, 3> kFolders = {"kept", "dropped", "quarantine"};  // by Fate

class Shard {
 public:
  // `tags_folder`: where the lines `tags` of add() go. `with_side`: also side/00000.bin (sidecar.h).
  Shard(fs::path directory, std::int64_t number, const char* tags_folder = kTagsFolder,
        bool with_side = false);
  // `tags`: a line about the document (tags.h); empty: none.
  void add(Fate fate, std::string_view line, std::string_view side = {}, std::string_view tags = {});
  void add_tags(std::string_view tags) { add_line(lines_[kFolders.size()], tags); }
  std::vector<OutputFile> commit();

 private:
  // A file that is made with its first line, and appears with commit().
  struct Lines {
    std::string folder, waiting;
    std::int64_t count = 0;
    std::unique_ptr<AtomicFile> file;
  };
  void add_line(Lines& to, std::string_view line, const char* extension = "jsonl");

  fs::path directory_;
  std::int64_t number_;
  bool with_side_;
  std::array<Lines, 5> lines_;  // by Fate; tags; side
  std::string fates_;
};

}  // namespace stoa::curate
