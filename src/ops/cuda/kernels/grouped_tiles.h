// Which rows of a grouped layer a block computes.
#pragma once

#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

// Tile `which` of those that all experts have, of `tile` rows each but for the last of an expert.
struct RowTile {
  std::int64_t expert = -1;  // none: there is no such tile
  std::int64_t first = 0, count = 0;

  STOA_DEVICE RowTile(const GroupedArgs& a, std::int64_t which, int tile) {
    if (which >= a.tiles[a.experts]) return;
    std::int64_t low = 0, high = a.experts;  // tiles[low] <= which < tiles[high]
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (a.tiles[middle] <= which ? low : high) = middle;
    }
    expert = low;
    first = a.begin[low] + (which - a.tiles[low]) * tile;
    count = a.begin[low + 1] - first < tile ? a.begin[low + 1] - first : tile;
  }
};

STOA_DEVICE std::int64_t less(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// All experts' tiles of rows, at most: each may have one that is not full.
inline std::int64_t most_row_tiles(const GroupedArgs& a, int tile) {
  return a.rows / tile + (a.experts < a.rows ? a.experts : a.rows);
}

}  // namespace stoa::ops::cuda
