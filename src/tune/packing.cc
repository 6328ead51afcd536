#include "tune/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace stoa::tune {

std::vector<std::vector<std::uint32_t>> pack(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  std::vector<std::uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<std::uint32_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> room;  // tokens left, row
  for (const std::uint32_t sample : order) {
    const std::int64_t length = lengths[sample];
    require<InternalError>(length >= 1 && length <= capacity, "a sample of {} tokens for rows of {}", length,
                           capacity);
    std::int64_t left = capacity;
    std::size_t row = rows.size();
    if (const auto fit = room.lower_bound({length, 0}); fit != room.end()) {
      std::tie(left, row) = *fit;
      room.erase(fit);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(sample);
    if (left > length) room.emplace(left - length, row);
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  return rows;
}

}  // namespace stoa::tune
