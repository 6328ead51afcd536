// Cuts parts of texts that occurred before (dedup/cutter.h) out of what deduplication kept: between the two
// passes of a run, over files of texts of its own.
#pragma once

#include <cstdint>
#include <fstream>
#include <stop_token>
#include <string>

#include "base/console.h"
#include "base/file.h"
#include "curate/run/pipeline.h"
#include "curate/run/second_pass.h"

namespace stoa::curate {

// The texts of documents in order, with which cutter dropped them.
class CutTexts {
 public:
  static constexpr std::uint32_t kNotDropped = 0xffffffff;
  struct Text {
    std::uint32_t dropped_by = kNotDropped;  // number of the cutter
    std::string text;
  };
  explicit CutTexts(const fs::path& path);
  bool next(Text& text);  // false at the end. IoError
  void skip(std::uint64_t texts);

 private:
  const fs::path path_;
  std::ifstream file_;
};

// Makes the file of texts, one for each document that deduplication keeps, as all cutters leave them. `work`:
// the folder of the first pass.
fs::path cut_copies(const Pipeline& pipeline, const fs::path& work, std::int64_t shards,
                    const Duplicates& duplicates, std::size_t memory, Console& console,
                    const std::stop_token& stop);

}  // namespace stoa::curate
