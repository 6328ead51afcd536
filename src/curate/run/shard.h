// The files of one shard: written together, visible once all are complete.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "curate/run/process.h"

namespace stoa::curate {

struct OutputFile {
  std::string name;  // "kept/00000.jsonl"
  std::int64_t documents = 0;
  std::uint64_t bytes = 0, checksum = 0;
};

inline constexpr std::array<const char*, 3> kFolders = {"kept", "dropped", "quarantine"};  // by Fate

class Shard {
 public:
  // `with_side`: also side/00000.bin (sidecar.h).
  Shard(fs::path directory, std::int64_t number, bool with_side = false)
      : directory_(std::move(directory)), number_(number), with_side_(with_side) {}
  // `tags`: the line of attributes/00000.jsonl (tags.h) that belongs to it; empty: none.
  void add(Fate fate, std::string_view line, std::string_view side = {}, std::string_view tags = {});
  std::vector<OutputFile> commit();

 private:
  fs::path directory_;
  std::int64_t number_;
  bool with_side_;
  std::array<std::string, 3>
      content_;  // held until the end, so that a kill leaves nothing: a shard is some 10 MB
  std::array<std::int64_t, 3> documents_{};
  std::string fates_, side_, tags_;
  std::int64_t tagged_ = 0;
};

}  // namespace stoa::curate
