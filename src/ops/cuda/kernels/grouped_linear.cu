#include <cmath>

#include "ops/cuda/kernels/float8.h"
#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/kernels/grouped_tiles.h"
#include "ops/cuda/kernels/product_tile.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/sorted_rows.h"

namespace stoa::ops::cuda {
namespace {

// One block; each thread has every count()-th expert.
struct BoundsKernel {
  using Args = ExpertBoundsArgs;
  static constexpr const char* kName = "expert bounds";
  static constexpr int kThreads = 512;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    for (std::int64_t e = t.index(); e <= a.experts; e += t.count())
      a.begin[e] = static_cast<std::int32_t>(rows_below(a.sorted_experts, a.rows, e));
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

// What a product of such operands is: of elements of type T, or of codes into results of type T.
template <class T, bool kWideElements>
struct Elements {
  using Result = T;
  using Left = T;   // x, or dy
  using Right = T;  // x, or the matrices
  using Tile = ProductTile<T, kWideElements>;
  STOA_DEVICE static float scale(const GroupedArgs&, std::int64_t) { return 1; }
};
template <class T, Float8 kLeft>
struct Codes {
  using Result = T;
  using Left = Code<kLeft>;
  using Right = Code<Float8::kE4M3>;
  using Tile = ProductTile<bf16, true>;
  STOA_DEVICE static float scale(const GroupedArgs& a, std::int64_t expert) {
    return a.codes.inverse_a[expert] * a.codes.inverse_b[expert];
  }
};

// Neighbouring blocks have the column tiles of y (forward) or dx (backward) of one tile of rows: its rows,
// and the matrix of its expert, are in the L2 cache then.
template <class Operands, bool kBackward>
struct RowsKernel {
  using Args = GroupedArgs;
  using Tile = typename Operands::Tile;
  static constexpr const char* kName = kBackward ? "grouped linear backward input" : "grouped linear forward";
  static constexpr int kThreads = Tile::kThreads, kResident = 2;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    using Left = typename Operands::Left;
    using Right = typename Operands::Right;
    const std::int64_t columns = kBackward ? a.k : a.n, depth = kBackward ? a.n : a.k,
                       tiles = (columns + Tile::kColumns - 1) / Tile::kColumns,
                       column = t.block_x() % tiles * Tile::kColumns;
    const RowTile rows(a, t.block_x() / tiles, Tile::kRows);
    if (rows.expert < 0) return;
    const Left* from = static_cast<const Left*>(kBackward ? a.dy : a.x) + rows.first * depth;
    const Right* w = static_cast<const Right*>(a.w) + rows.expert * a.n * a.k;
    auto* out = static_cast<typename Operands::Result*>(a.out) + rows.first * columns + column;
    const Vectors<Left, false> left{from, depth, rows.count};
    const Vectors<Right, kBackward> right{kBackward ? w + column : w + column * a.k, a.k,
                                          less(columns - column, Tile::kColumns)};
    const float scale = Operands::scale(a, rows.expert);
    Tile::run(t, left, right, depth,
              [&](int r, int c, float sum) { narrow(sum * scale, out[r * columns + c]); });
  }
};

// Block (x, y): tile x of the columns of dw, tile y of the rows of all experts' dw.
template <class Operands>
struct WeightKernel {
  using Args = GroupedArgs;
  using Tile = typename Operands::Tile;
  static constexpr const char* kName = "grouped linear backward weight";
  static constexpr int kThreads = Tile::kThreads, kResident = 2;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    using Left = typename Operands::Left;
    using Right = typename Operands::Right;
    const std::int64_t tiles = (a.n + Tile::kRows - 1) / Tile::kRows, matrix = t.block_y() / tiles,
                       expert = a.part_of >= 0 ? a.part_of : matrix, row = t.block_y() % tiles * Tile::kRows,
                       column = t.block_x() * Tile::kColumns, first = a.begin[expert],
                       depth = a.begin[expert + 1] - first;
    if (depth == 0 && a.accumulate) return;
    const Vectors<Left, true> left{static_cast<const Left*>(a.dy) + first * a.n + row, a.n,
                                   less(a.n - row, Tile::kRows)};
    const Vectors<Right, true> right{static_cast<const Right*>(a.x) + first * a.k + column, a.k,
                                     less(a.k - column, Tile::kColumns)};
    const float scale = Operands::scale(a, expert);
    float* out = static_cast<float*>(a.out) + (matrix * a.n + row) * a.k + column;
    const bool continues = a.part_of >= 0 && a.accumulate, adds = a.part_of < 0 && a.accumulate;
    Tile::run(
        t, left, right, depth,
        [&](int r, int c, float sum) {
          float& at = out[r * a.k + c];
          at = adds ? at + sum * scale : sum * scale;
        },
        [&](int r, int c) { return continues ? out[r * a.k + c] : 0.0f; });
  }
};

// Calls body(Elements{}) with the operands' type; or body(Codes{}), whose rows are dy or not.
template <class Body>
void with_operands(const GroupedArgs& a, bool gradient, const Body& body) {
  with_fast_type(a.type, [&](auto type) {
    using T = decltype(type);
    if (a.codes.used) {
      if (gradient && a.codes.dy == Float8::kE5M2)
        body(Codes<T, Float8::kE5M2>{});
      else
        body(Codes<T, Float8::kE4M3>{});
    } else if (a.wide) {
      body(Elements<T, true>{});
    } else {
      body(Elements<T, false>{});
    }
  });
}

template <bool kBackward>
void launch_rows(const GroupedArgs& a, void* stream) {
  with_operands(a, kBackward, [&](auto operands) {
    using Tile = typename decltype(operands)::Tile;
    launch<RowsKernel<decltype(operands), kBackward>>(
        {.x = most_row_tiles(a, Tile::kRows) * ceil_div(kBackward ? a.k : a.n, Tile::kColumns),
         .threads = Tile::kThreads,
         .shared = Tile::kShared},
        stream, a);
  });
}

// The one place that decides which tile computes.
#if defined(STOA_SM_90A) || !defined(__CUDACC__)
constexpr bool kWarpgroups = true;
#else
constexpr bool kWarpgroups = false;  // their code was not compiled
#endif
bool by_warpgroups(const GroupedArgs& a) {
  return kWarpgroups && a.warpgroup_blocks > 0 && a.wide && !a.codes.used && a.type != Element::kF32;
}

}  // namespace

bool has_warpgroup_products(int major, int minor) { return kWarpgroups && major == 9 && minor == 0; }

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

void launch_grouped_forward(const GroupedArgs& a, void* stream) {
  if constexpr (kWarpgroups)
    if (by_warpgroups(a)) return launch_forward_by_warpgroups(a, stream);
  launch_rows<false>(a, stream);
}
void launch_grouped_backward_input(const GroupedArgs& a, void* stream) {
  if constexpr (kWarpgroups)
    if (by_warpgroups(a)) return launch_backward_input_by_warpgroups(a, stream);
  launch_rows<true>(a, stream);
}

void launch_grouped_backward_weight(const GroupedArgs& a, void* stream) {
  if constexpr (kWarpgroups)
    if (by_warpgroups(a)) return launch_backward_weight_by_warpgroups(a, stream);
  with_operands(a, true, [&](auto operands) {
    using Tile = typename decltype(operands)::Tile;
    launch<WeightKernel<decltype(operands)>>(
        {.x = ceil_div(a.k, Tile::kColumns),
         .y = (a.part_of >= 0 ? 1 : a.experts) * ceil_div(a.n, Tile::kRows),
         .threads = Tile::kThreads,
         .shared = Tile::kShared},
        stream, a);
  });
}

}  // namespace stoa::ops::cuda
