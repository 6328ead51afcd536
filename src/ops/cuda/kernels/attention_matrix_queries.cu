// Backward pass of attention of 16-bit heads on matrix units: gradients of queries and of a relative bias.
#include "ops/cuda/kernels/attention_bias_gradient.h"
#include "ops/cuda/kernels/attention_paths.h"

namespace stoa::ops::cuda {
namespace {

// A block owns queries of one head, a warp 16 kM of them, and walks over keys: dq = sum of ds k. Where there
// is a bias to train, blocks are few, have several places one after the other and a table of their own.
template <class T, int kMost>
struct MatrixQueryKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, queries";
  static constexpr int kThreads = kTileThreads;

  static constexpr int kM = kMost <= 64 ? 2 : 1, kOwn = 16 * kM, kQueries = kOwn * kTileWarps,
                       kKeys = kMost <= 128 ? 32 : 16, kStages = kMost <= 128 ? 2 : 1;
  using Tile = HeadTile<T, kMost>;
  using Tables = PairTables<kQueries, kKeys>;
  using Stage = KeyStage<T, kMost, kQueries, kKeys>;
  struct Shared {
    alignas(16) T q[kQueries * Tile::kPitch], g[kQueries * Tile::kPitch];
    Stage stages[kStages];
  };
  struct SharedWithBias : Shared {
    DiagonalSums<kQueries, kKeys> diagonals;
  };
  static_assert(sizeof(SharedWithBias) <= kMostTileShared);

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const int head = static_cast<int>(t.block_y());
    const std::int64_t places = a.segments * ((a.longest_q + kQueries - 1) / kQueries);
    float* table = nullptr;
    if (a.bias_gradient) {
      table = a.bias_parts + (t.block_x() * a.heads + head) * a.offsets;
      for (std::int64_t i = t.index(); i < a.offsets; i += kThreads) table[i] = 0;
    }
    for (std::int64_t place = t.block_x(); place < places; place += t.blocks_x()) {
      run_place(t, a, Place(place, a.longest_q, kQueries), head, table);
      t.sync();
    }
  }

  STOA_DEVICE static void run_place(const Thread& t, const Args& a, const Place& place, int head,
                                    float* table) {
    const Segment segment(a, place.segment);
    if (place.first >= segment.queries) return;
    const Tile tile(t, a.d);
    auto& shared = *t.shared<SharedWithBias>();
    const int row = kOwn * t.warp(), first = place.first + row;
    T *q = shared.q + row * Tile::kPitch, *g = shared.g + row * Tile::kPitch;
    tile.template load<kQueries>(a, shared.q, a.q, segment.q_begin, head, place.first, segment.queries);
    tile.template load<kQueries>(a, shared.g, a.dout, segment.q_begin, head, place.first, segment.queries);
    float lse[kM][2], delta[kM][2];
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int query = first + 16 * m + sum_row(t, 2 * half);
        const std::int64_t at = (segment.q_begin + query) * a.heads + head;
        lse[m][half] = query < segment.queries ? a.lse[at] : 0;
        delta[m][half] = query < segment.queries ? a.delta[at] : 0;
      }
    }
    const Segment::Range mine = segment.keys_of(a, first, kOwn);
    Sums<kM, kMost / 8> dq = {};
    walk_keys<false>(t, tile, a, segment, head, place.first, shared.stages, [&](int key, const Stage& stage) {
      const bool meets = mine.meets(key, kKeys);
      const Pairs<kQueries, kKeys, false> pairs{t, a, segment, stage.tables, place.first, key, row};
      Sums<kM, kKeys / 8> s = {}, ds = {};
      if (meets) {
        tile.multiply_rows(q, stage.k, s);
        tile.multiply_rows(g, stage.v, ds);
        pairs.drop(ds, a.keep_scale);
        pairs.scale(s);
        const auto by_scores = [&](const auto& bias) {
          pairs.template for_each<kM, kKeys / 8>([&](int query, int k, int m, int j, int n) {
            ds[m][j][n] =
                (ds[m][j][n] - delta[m][n / 2]) * fast_exp(s[m][j][n] + bias(query, k) - lse[m][n / 2]);
          });
        };
        if (a.relative_bias)
          by_scores([&](int query, int k) { return stage.tables.bias[Tables::offset(query, k)]; });
        else
          by_scores([](int, int) { return 0.0f; });
        pairs.hide(ds, 0);
      }
      if (a.bias_gradient) {
        auto& diagonals = shared.diagonals;
        pairs.template for_each<kM, kKeys / 8>([&](int query, int k, int m, int j, int n) {
          diagonals.pairs[query * diagonals.kPitch + k] = ds[m][j][n];
        });
        diagonals.add_to(t, a, key - segment.at(place.first + kQueries - 1), table);
      }
      if (meets) {
        pairs.slope(s, ds);
        tile.multiply(ds, stage.k, dq);
      }
    });
    tile.store(
        a, q, dq, [&](int, int) { return a.scale; }, a.dq, segment.q_begin, head, first, segment.queries);
  }
};

// The tables of all blocks become one: a thread per row and head.
struct BiasPartsKernel {
  struct Args {
    AttentionArgs attention;
    std::int64_t parts;
  };
  static constexpr const char* kName = "attention backward, relative bias";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const AttentionArgs& a = args.attention;
    const std::int64_t i = t.block_x() * kThreads + t.index(), all = a.heads * a.offsets;
    if (i >= all) return;
    const std::int64_t head = i / a.offsets, row = i - head * a.offsets;
    float sum = 0;
    for (std::int64_t p = 0; p < args.parts; ++p) sum += a.bias_parts[p * all + i];
    a.bias_gradient[row * a.dbias_stride + head] += sum;
  }
};

}  // namespace

void launch_matrix_attention_backward_queries(const AttentionArgs& a, void* stream) {
  std::int64_t blocks = 0;
  with_matrix_heads(a, [&](auto type, auto most) {
    using Kernel = MatrixQueryKernel<decltype(type), decltype(most)::value>;
    blocks = a.segments * ceil_div(a.longest_q, Kernel::kQueries);
    if (a.bias_gradient && blocks > bias_gradient_parts(a.heads)) blocks = bias_gradient_parts(a.heads);
    launch<Kernel>({.x = blocks,
                    .y = a.heads,
                    .threads = Kernel::kThreads,
                    .shared = a.bias_gradient ? sizeof(typename Kernel::SharedWithBias)
                                              : sizeof(typename Kernel::Shared)},
                   stream, a);
  });
  if (a.bias_gradient)
    launch<BiasPartsKernel>(
        {.x = ceil_div(a.heads * a.offsets, BiasPartsKernel::kThreads), .threads = BiasPartsKernel::kThreads},
        stream, {a, blocks});
}

}  // namespace stoa::ops::cuda
