// Deduplication of what the stages kept: over all shards of the first pass, in stated memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "curate/run/journal.h"
#include "curate/run/pipeline.h"

namespace stoa::curate {

struct Duplicates {
  std::vector<bool> removed;           // by number among the documents that the stages kept
  std::vector<std::uint8_t> by;        // of removed ones: number of the deduplication
  std::vector<std::uint32_t> cluster;  // first document of its cluster; itself where there is no copy
  std::vector<bool> in_cluster;
};

// Bytes that find_duplicates() holds for every document, besides what it sorts.
std::size_t bytes_per_document(const Pipeline& pipeline);

// `work`: the folder of the first pass. ConfigError where the documents do not fit the memory.
Duplicates find_duplicates(const Pipeline& pipeline, const fs::path& work, std::int64_t shards,
                           std::size_t memory, Console& console);

// Writes the shards that `journal` does not have yet, from those of the first pass. `texts`: those of
// cut_pass.h, of a pipeline that cuts; else empty.
void write_second_pass(const Pipeline& pipeline, const fs::path& work, const Journal& first,
                       const Duplicates& duplicates, const fs::path& texts, const fs::path& output,
                       Journal& journal, Console& console, const std::stop_token& stop);

}  // namespace stoa::curate
