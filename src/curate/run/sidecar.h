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

// Appends one kept document: its bytes of text, then for every deduplication the number of its keys and the
// keys.
void append_side(std::uint32_t text_bytes, std::span<const std::vector<std::uint64_t>> keys,
                 std::string& out);

class Sidecar {
 public:
  explicit Sidecar(const fs::path& path);  // DataError where it is damaged
  std::string_view fates() const { return fates_; }
  std::uint32_t kept() const { return kept_; }  // documents
  // Calls visit(bytes of text, keys of `deduplication`) for every kept document, in order.
  void each(std::size_t deduplications, std::size_t deduplication,
            const std::function<void(std::uint32_t, std::span<const std::uint64_t>)>& visit) const;

 private:
  std::string content_;
  std::string_view fates_, records_;
  std::uint32_t kept_ = 0;
};

// The content of a file of that kind.
std::string sidecar_content(std::string_view fates, std::string_view records);

}  // namespace stoa::curate
