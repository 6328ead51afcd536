// What the second pass of a run needs to know of a shard in addition to its lines: the fate of every
// document, in order, and of those that the stages kept the length and the keys of every deduplication.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

// What a deduplication needs to know of a document.
struct SideEntry {
  std::uint32_t rank = 0;  // of its copies the one of the largest rank stays
  std::vector<std::uint64_t> keys;
};

// Appends one kept document: its bytes of text, then for every deduplication its rank, the number of its keys
// and the keys.
void append_side(std::uint32_t text_bytes, std::span<const SideEntry> entries, std::string& out);

class Sidecar {
 public:
  explicit Sidecar(const fs::path& path);  // DataError where it is damaged
  std::string_view fates() const { return fates_; }
  std::uint32_t kept() const { return kept_; }  // documents
  // Calls visit(bytes of text, entry of `deduplication`) for every kept document, in order; reads the file.
  void each(std::size_t deduplications, std::size_t deduplication,
            const std::function<void(std::uint32_t, const SideEntry&)>& visit) const;

 private:
  const fs::path path_;
  std::string fates_;
  std::uint32_t kept_ = 0;
};

// What stands behind the records of a file of that kind.
std::string sidecar_end(std::string_view fates);

}  // namespace stoa::curate
