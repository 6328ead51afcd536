// The products of grouped layers by warpgroups, for sm_90a. Wide operands of 16 bits.
#include "ops/cuda/kernels/grouped_tiles.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/warpgroup_tile.h"

namespace stoa::ops::cuda {
namespace {

// Where the sums of a thread stand: sums[4 j + 2 r + c] at row() + 8 r, column() + 8 j + c.
STOA_DEVICE int first_row(const Thread& t) { return t.warp() * 16 + t.lane() / 4; }
STOA_DEVICE int first_column(const Thread& t) { return t.lane() % 4 * 2; }

// Four lanes in sequence have a row of 4 x 4 words each; then each has a column.
STOA_DEVICE void transpose_in_four(const Thread& t, std::uint32_t (&words)[4]) {
  STOA_UNROLL
  for (int mask = 1; mask < 4; mask *= 2) {
    const bool upper = (t.lane() & mask) != 0;
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i & mask) continue;
      std::uint32_t &low = words[i], &high = words[i + mask];
      const std::uint32_t other = t.shuffle_xor(upper ? low : high, mask);
      (upper ? low : high) = other;
    }
  }
}

// y or dx: neighbouring tiles have the same rows and the columns of one expert's matrix, which are in the L2
// cache then.
template <class Element, bool kBackward>
struct RowProducts {
  using T = Element;
  static constexpr bool kAcrossLeft = false, kAcrossRight = kBackward;
  struct Tile {
    const T *left, *right;
    int rows, columns, depth;
    T* out;
  };
  const GroupedArgs& a;
  const T *left, *right;
  std::int64_t left_stride, right_stride, out_columns;
  int tiles, count;

  STOA_DEVICE explicit RowProducts(const GroupedArgs& args)
      : a(args),
        left(static_cast<const T*>(kBackward ? a.dy : a.x)),
        right(static_cast<const T*>(a.w)),
        left_stride(kBackward ? a.n : a.k),
        right_stride(a.k),
        out_columns(kBackward ? a.k : a.n),
        tiles(static_cast<int>((out_columns + WarpgroupTile::kColumns - 1) / WarpgroupTile::kColumns)),
        count(a.tiles[a.experts] * tiles) {}

  STOA_DEVICE Tile at(int n) const {
    const int column = n % tiles * WarpgroupTile::kColumns;
    const RowTile rows(a, n / tiles, WarpgroupTile::kRows);
    const T* matrix = right + rows.expert * a.n * a.k;
    return {left + rows.first * left_stride,
            kBackward ? matrix + column : matrix + column * a.k,
            static_cast<int>(rows.count),
            static_cast<int>(less(out_columns - column, WarpgroupTile::kColumns)),
            static_cast<int>(left_stride),
            static_cast<T*>(a.out) + rows.first * out_columns + column};
  }
  STOA_DEVICE bool skips(const Tile&) const { return false; }
  STOA_DEVICE void start(const Thread&, const Tile&, float (&sums)[128]) const {
    STOA_UNROLL
    for (int i = 0; i < 128; ++i) sums[i] = 0;
  }
  // Lanes exchange sums so that each has eight columns in sequence, 16 bytes.
  STOA_DEVICE void finish(const Thread& t, const Tile& tile, const float (&sums)[128]) const {
    STOA_UNROLL
    for (int j = 0; j < 32; j += 4) {
      STOA_UNROLL
      for (int r = 0; r < 2; ++r) {
        Bytes16 bytes;
        STOA_UNROLL
        for (int i = 0; i < 4; ++i)
          bytes.words[i] = narrow_pair<T>(sums[4 * (j + i) + 2 * r], sums[4 * (j + i) + 2 * r + 1]);
        transpose_in_four(t, bytes.words);
        const int row = first_row(t) + 8 * r, column = 8 * (j + t.lane() % 4);
        if (row < tile.rows && column < tile.columns) store16(tile.out + row * out_columns + column, bytes);
      }
    }
  }
};

// dw: tiles of columns, of rows and of matrices.
template <class Element>
struct WeightProducts {
  using T = Element;
  static constexpr bool kAcrossLeft = true, kAcrossRight = true;
  struct Tile {
    const T *left, *right;
    int rows, columns, depth;
    float* out;
  };
  const GroupedArgs& a;
  const T *left, *right;
  std::int64_t left_stride, right_stride;
  int row_tiles, column_tiles, count;

  STOA_DEVICE explicit WeightProducts(const GroupedArgs& args)
      : a(args),
        left(static_cast<const T*>(a.dy)),
        right(static_cast<const T*>(a.x)),
        left_stride(a.n),
        right_stride(a.k),
        row_tiles(static_cast<int>((a.n + WarpgroupTile::kRows - 1) / WarpgroupTile::kRows)),
        column_tiles(static_cast<int>((a.k + WarpgroupTile::kColumns - 1) / WarpgroupTile::kColumns)),
        count((a.part_of >= 0 ? 1 : static_cast<int>(a.experts)) * row_tiles * column_tiles) {}

  STOA_DEVICE Tile at(int n) const {
    const int matrix = n / column_tiles / row_tiles,
              row = n / column_tiles % row_tiles * WarpgroupTile::kRows,
              column = n % column_tiles * WarpgroupTile::kColumns;
    const std::int64_t expert = a.part_of >= 0 ? a.part_of : matrix, first = a.begin[expert];
    return {left + first * a.n + row,
            right + first * a.k + column,
            static_cast<int>(less(a.n - row, WarpgroupTile::kRows)),
            static_cast<int>(less(a.k - column, WarpgroupTile::kColumns)),
            static_cast<int>(a.begin[expert + 1] - first),
            static_cast<float*>(a.out) + (matrix * a.n + row) * a.k + column};
  }
  STOA_DEVICE bool skips(const Tile& tile) const { return tile.depth == 0 && a.accumulate; }
  STOA_DEVICE bool adds() const { return a.part_of < 0 && a.accumulate; }

  // Calls body(i, pair of sums i and i + 1, their place) for sums from 4 `from` to 4 `to` that are there.
  template <class Body>
  STOA_DEVICE void for_each_pair(const Thread& t, const Tile& tile, int from, int to,
                                 const Body& body) const {
    float* begin = tile.out + first_row(t) * a.k + first_column(t);
    STOA_UNROLL
    for (int j = from; j < to; ++j) {
      STOA_UNROLL
      for (int r = 0; r < 2; ++r)
        if (first_row(t) + 8 * r < tile.rows && 8 * j < tile.columns)
          body(4 * j + 2 * r, begin + 8 * r * a.k + 8 * j);
    }
  }
  STOA_DEVICE void start(const Thread& t, const Tile& tile, float (&sums)[128]) const {
    STOA_UNROLL
    for (int i = 0; i < 128; ++i) sums[i] = 0;
    if (adds()) {  // what finish() reads is in the L2 cache then
      constexpr int kLine = 32, kLines = WarpgroupTile::kColumns / kLine;
      for (int i = t.index(); i < WarpgroupTile::kRows * kLines; i += WarpgroupTile::kThreads)
        if (i / kLines < tile.rows && i % kLines * kLine < tile.columns)
          prefetch_line(t, tile.out + i / kLines * a.k + i % kLines * kLine);
    }
    if (a.part_of >= 0 && a.accumulate)
      for_each_pair(t, tile, 0, 32, [&](int i, const float* at) {
        std::uint32_t pair[2];
        load8(at, pair);
        sums[i] = float_of(pair[0]), sums[i + 1] = float_of(pair[1]);
      });
  }
  STOA_DEVICE void finish(const Thread& t, const Tile& tile, const float (&sums)[128]) const {
    constexpr int kTogether = 8;  // so many are read before the first is written
    STOA_UNROLL
    for (int j = 0; j < 32; j += kTogether) {
      float before[4 * kTogether] = {};
      if (adds())
        for_each_pair(t, tile, j, j + kTogether, [&](int i, const float* at) {
          std::uint32_t pair[2];
          load8(at, pair);
          before[i - 4 * j] = float_of(pair[0]), before[i + 1 - 4 * j] = float_of(pair[1]);
        });
      for_each_pair(t, tile, j, j + kTogether, [&](int i, float* at) {
        store8(at, bits_of(before[i - 4 * j] + sums[i]), bits_of(before[i + 1 - 4 * j] + sums[i + 1]));
      });
    }
  }
};

template <class Products>
constexpr const char* kProductsName = "grouped linear backward weight by warpgroups";
template <class T>
constexpr const char* kProductsName<RowProducts<T, false>> = "grouped linear forward by warpgroups";
template <class T>
constexpr const char* kProductsName<RowProducts<T, true>> = "grouped linear backward input by warpgroups";

template <class Products>
struct WarpgroupsKernel {
  using Args = GroupedArgs;
  static constexpr const char* kName = kProductsName<Products>;
  static constexpr int kThreads = WarpgroupTile::kThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) { WarpgroupTile::run(t, Products(a)); }
};

template <class Products>
void launch_products(const GroupedArgs& a, std::int64_t tiles, void* stream) {
  launch<WarpgroupsKernel<Products>>({.x = tiles < a.warpgroup_blocks ? tiles : a.warpgroup_blocks,
                                      .threads = WarpgroupTile::kThreads,
                                      .shared = WarpgroupTile::kShared},
                                     stream, a);
}

template <bool kBackward>
void launch_rows_by_warpgroups(const GroupedArgs& a, void* stream) {
  const std::int64_t tiles =
      most_row_tiles(a, WarpgroupTile::kRows) * ceil_div(kBackward ? a.k : a.n, WarpgroupTile::kColumns);
  if (a.type == Element::kBF16)
    launch_products<RowProducts<bf16, kBackward>>(a, tiles, stream);
  else
    launch_products<RowProducts<f16, kBackward>>(a, tiles, stream);
}

}  // namespace

void launch_forward_by_warpgroups(const GroupedArgs& a, void* stream) {
  launch_rows_by_warpgroups<false>(a, stream);
}
void launch_backward_input_by_warpgroups(const GroupedArgs& a, void* stream) {
  launch_rows_by_warpgroups<true>(a, stream);
}
void launch_backward_weight_by_warpgroups(const GroupedArgs& a, void* stream) {
  const std::int64_t tiles = (a.part_of >= 0 ? 1 : a.experts) * ceil_div(a.n, WarpgroupTile::kRows) *
                             ceil_div(a.k, WarpgroupTile::kColumns);
  if (a.type == Element::kBF16)
    launch_products<WeightProducts<bf16>>(a, tiles, stream);
  else
    launch_products<WeightProducts<f16>>(a, tiles, stream);
}

}  // namespace stoa::ops::cuda
