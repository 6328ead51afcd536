#include <cmath>

#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/kernels/product_tile.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// One block; each thread has every count()-th expert.
struct BoundsKernel {
  using Args = ExpertBoundsArgs;
  static constexpr const char* kName = "expert bounds";
  static constexpr int kThreads = 512;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    // Rows of experts below e: ids do not decrease, and nobody's come last.
    for (std::int64_t e = t.index(); e <= a.experts; e += t.count()) {
      std::int64_t low = 0, high = a.rows;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        const std::int32_t id = a.sorted_experts[middle];
        if (id >= 0 && id < e)
          low = middle + 1;
        else
          high = middle;
      }
      a.begin[e] = static_cast<std::int32_t>(low);
    }
    t.sync();
    std::int32_t before = 0;
    for (std::int64_t first = 0; first <= a.experts; first += t.count()) {
      const std::int64_t e = first + t.index();
      const std::int32_t tiles = e < a.experts ? (a.begin[e + 1] - a.begin[e] + a.tile - 1) / a.tile : 0;
      const Prefix<std::int32_t> sum = block_prefix(t, tiles, t.shared<std::int32_t>());
      if (e <= a.experts) a.tiles[e] = before + sum.before;
      before += sum.all;
    }
  }
};

// The rows of one block: tile t.block_x() of those that all experts have.
struct RowTile {
  std::int64_t expert = -1;  // none: the block has no rows
  std::int64_t first = 0, count = 0;

  STOA_DEVICE RowTile(const Thread& t, const GroupedArgs& a, int tile) {
    const std::int64_t which = t.block_x();
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

// Block (x, y): tile x of the rows, tile y of the columns of y (forward), of dx (backward).
template <class T, bool kWide, bool kBackward>
struct RowsKernel {
  using Args = GroupedArgs;
  using Tile = ProductTile<T, kWide>;
  static constexpr const char* kName = kBackward ? "grouped linear backward input" : "grouped linear forward";
  static constexpr int kThreads = Tile::kThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const RowTile rows(t, a, Tile::kRows);
    if (rows.expert < 0) return;
    const std::int64_t columns = kBackward ? a.k : a.n, depth = kBackward ? a.n : a.k,
                       column = t.block_y() * Tile::kColumns;
    const T* from = static_cast<const T*>(kBackward ? a.dy : a.x) + rows.first * depth;
    const T* w = static_cast<const T*>(a.w) + rows.expert * a.n * a.k;
    T* out = static_cast<T*>(a.out) + rows.first * columns + column;
    const Vectors<T, false> left{from, depth, rows.count};
    const Vectors<T, kBackward> right{kBackward ? w + column : w + column * a.k, a.k,
                                      less(columns - column, Tile::kColumns)};
    Tile::run(t, left, right, depth, [&](int r, int c, float sum) { narrow(sum, out[r * columns + c]); });
  }
};

// Block (x, y): tile x of the columns of dw, tile y of the rows of all experts' dw.
template <class T, bool kWide>
struct WeightKernel {
  using Args = GroupedArgs;
  using Tile = ProductTile<T, kWide>;
  static constexpr const char* kName = "grouped linear backward weight";
  static constexpr int kThreads = Tile::kThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t tiles = (a.n + Tile::kRows - 1) / Tile::kRows, expert = t.block_y() / tiles,
                       row = t.block_y() % tiles * Tile::kRows, column = t.block_x() * Tile::kColumns,
                       first = a.begin[expert], depth = a.begin[expert + 1] - first;
    if (depth == 0 && a.accumulate) return;
    const Vectors<T, true> left{static_cast<const T*>(a.dy) + first * a.n + row, a.n,
                                less(a.n - row, Tile::kRows)};
    const Vectors<T, true> right{static_cast<const T*>(a.x) + first * a.k + column, a.k,
                                 less(a.k - column, Tile::kColumns)};
    float* out = static_cast<float*>(a.out) + (expert * a.n + row) * a.k + column;
    Tile::run(t, left, right, depth, [&](int r, int c, float sum) {
      float& at = out[r * a.k + c];
      at = a.accumulate ? at + sum : sum;
    });
  }
};

// Calls body(type, wide) with the type of the elements and std::bool_constant.
template <class Body>
void with_tile(const GroupedArgs& a, const Body& body) {
  with_fast_type(a.type, [&](auto type) {
    if (a.wide)
      body(type, std::true_type{});
    else
      body(type, std::false_type{});
  });
}

template <bool kBackward>
void launch_rows(const GroupedArgs& a, void* stream) {
  with_tile(a, [&](auto type, auto wide) {
    using Tile = ProductTile<decltype(type), decltype(wide)::value>;
    // Every expert may have a tile that is not full.
    launch<RowsKernel<decltype(type), decltype(wide)::value, kBackward>>(
        {.x = a.rows / Tile::kRows + (a.experts < a.rows ? a.experts : a.rows),
         .y = ceil_div(kBackward ? a.k : a.n, Tile::kColumns),
         .threads = Tile::kThreads,
         .shared = Tile::kShared},
        stream, a);
  });
}

}  // namespace

int grouped_tile_rows(Element type) {
  int rows = 0;
  with_fast_type(type, [&](auto t) { rows = ProductTile<decltype(t), true>::kRows; });
  return rows;
}

void launch_expert_bounds(const ExpertBoundsArgs& a, void* stream) {
  launch<BoundsKernel>(
      {.threads = BoundsKernel::kThreads, .shared = BoundsKernel::kThreads / 32 * sizeof(std::int32_t)},
      stream, a);
}

void launch_grouped_forward(const GroupedArgs& a, void* stream) { launch_rows<false>(a, stream); }
void launch_grouped_backward_input(const GroupedArgs& a, void* stream) { launch_rows<true>(a, stream); }

void launch_grouped_backward_weight(const GroupedArgs& a, void* stream) {
  with_tile(a, [&](auto type, auto wide) {
    using Tile = ProductTile<decltype(type), decltype(wide)::value>;
    launch<WeightKernel<decltype(type), decltype(wide)::value>>({.x = ceil_div(a.k, Tile::kColumns),
                                                                 .y = a.experts * ceil_div(a.n, Tile::kRows),
                                                                 .threads = Tile::kThreads,
                                                                 .shared = Tile::kShared},
                                                                stream, a);
  });
}

}  // namespace stoa::ops::cuda
