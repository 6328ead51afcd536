// Attention of 16-bit heads of more than kLargestHead elements, whose values are the keys, over keys in
// blocks of a cache, on matrix units.
#include <cmath>
#include <type_traits>

#include "ops/cuda/kernels/attention_cached_tiles.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_rows.h"
#include "ops/cuda/kernels/attention_softmax.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block owns 16 rows, each a query and a head of one group, and walks over keys: of one span, whose softmax
// it leaves as a state (kSpan), or of all. Its warps share the keys of a stage for scores, and the columns of
// values.
template <class T, bool kSpan>
struct LargeHeadsKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention of large heads";
  static constexpr int kThreads = kTileThreads;

  static constexpr int kMost = kLargestCachedHead;
  using Tile = HeadTile<T, kMost>;
  static constexpr int kRows = 16, kPitch = Tile::kPitch, kAtOnce = kForwardKeys<kMost>, kKeys = 32,
                       kScorePitch = kKeys + 4, kStages = 2;
  static constexpr int kOwnSteps = kMost / 16 / kTileWarps;  // pieces of 16 columns of a warp: every fourth
  struct Stage {
    alignas(16) T k[kKeys * kPitch];
  };
  struct Shared {
    alignas(16) T q[kRows * kPitch];
    Stage stages[kStages];
    float scores[kRows * kScorePitch];
  };
  static_assert(sizeof(Shared) <= kMostTileShared && kKeySpan % kKeys == 0 && kKeys % kAtOnce == 0);
  using Softmax = MatrixSoftmax<1, 2 * kOwnSteps>;

  // Calls body(column, j, n) for the sums of outputs of a lane in one half of its rows.
  template <class Body>
  STOA_DEVICE static void for_columns(const Thread& t, int d, int half, const Body& body) {
    STOA_UNROLL
    for (int j = 0; j < 2 * kOwnSteps; ++j) {
      STOA_UNROLL
      for (int n = 2 * half; n < 2 * half + 2; ++n) {
        const int column = 16 * (t.warp() + kTileWarps * (j / 2)) + 8 * (j % 2) + sum_column(t, n);
        if (column < d) body(column, j, n);
      }
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const GroupRows<kSpan> rows(t, a, kRows);
    if (rows.none()) return;
    const Segment& segment = rows.segment;
    const Segment::Range range = rows.keys_of_tile(kRows);
    if (kSpan && range.begin >= range.end) return;
    const Tile tile(t, a.d);
    Shared& shared = *t.shared<Shared>();
    tile.template load_rows<kRows>(
        shared.q, a.wide, a.q.data, [&](int r) { return rows.has(r); },
        [&](int r) { return rows.template place<const T>(a.q, r); });
    const int begin = range.begin / kKeys * kKeys, own_keys = 16 * t.warp(), top_row = sum_row(t, 0);
    const int query[2] = {rows.query(top_row), rows.query(top_row + 8)},
              head[2] = {rows.head(top_row), rows.head(top_row + 8)};
    Softmax softmax, all;  // `all`: of the spans before
    walk<kStages>(
        t, (range.end - begin + kKeys - 1) / kKeys,
        [&](int i, int which) {
          Stage& stage = shared.stages[which];
          const int key = begin + i * kKeys;
          load_keys<true, kKeys, 8>(tile, a, stage.k, a.k, segment, rows.group, key);
        },
        [&](int i, int which) {
          const Stage& stage = shared.stages[which];
          const int key = begin + i * kKeys;
          if (own_keys < kKeys) {
            Sums<1, 2> s = {};
            tile.multiply_rows(shared.q, stage.k + own_keys * kPitch, s);
            STOA_UNROLL
            for (int j = 0; j < 2; ++j) {
              STOA_UNROLL
              for (int n = 0; n < 4; ++n) {
                const int half = n / 2, column = own_keys + 8 * j + sum_column(t, n);
                shared.scores[sum_row(t, n) * kScorePitch + column] =
                    segment.visible(a, query[half], key + column)
                        ? segment.score(a, head[half], query[half], key + column, s[0][j][n])
                        : -INFINITY;
              }
            }
          }
          t.sync();
          STOA_UNROLL
          for (int first = 0; first < kKeys; first += kAtOnce) {
            if (!range.meets(key + first, kAtOnce)) continue;
            Sums<1, kAtOnce / 8> s;
            STOA_UNROLL
            for (int j = 0; j < kAtOnce / 8; ++j) {
              STOA_UNROLL
              for (int n = 0; n < 4; ++n)
                s[0][j][n] = shared.scores[sum_row(t, n) * kScorePitch + first + 8 * j + sum_column(t, n)];
            }
            softmax.add(t, s);
            multiply(t, tile, s, stage.k + first * kPitch, softmax.out);
          }
          if (!kSpan && (key + kKeys) % kKeySpan == 0) {
            softmax.add_lanes(t);
            all.join(softmax);
            softmax.clear();
          }
        });
    softmax.add_lanes(t);
    if constexpr (!kSpan) all.join(softmax);
    STOA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = top_row + 8 * half;
      if (!rows.has(row)) continue;
      if constexpr (kSpan) {
        float* state = rows.state(row);
        for_columns(t, a.d, half, [&](int column, int j, int n) { state[column] = softmax.out[0][j][n]; });
        if (t.warp() == 0 && t.lane() % 4 == 0)
          state[a.d] = softmax.top[0][half], state[a.d + 1] = softmax.sum[0][half];
      } else {
        const float sum = all.sum[0][half], factor = sum == 0 ? 0.0f : 1.0f / sum;
        T* o = rows.template place<T>(a.o, row);
        for_columns(t, a.d, half,
                    [&](int column, int j, int n) { narrow(all.out[0][j][n] * factor, o[column]); });
        if (a.lse && t.warp() == 0 && t.lane() % 4 == 0)
          a.lse[(segment.q_begin + query[half]) * a.heads + head[half]] =
              sum == 0 ? -INFINITY : all.top[0][half] + logf(sum);
      }
    }
  }

  // As Tile::multiply(), of the columns of this warp.
  STOA_DEVICE static void multiply(const Thread& t, const Tile& tile, const Sums<1, kAtOnce / 8>& x,
                                   const T* y, Sums<1, 2 * kOwnSteps>& sum) {
    STOA_UNROLL
    for (int j = 0; j < kAtOnce / 8; j += 2) {
      std::uint32_t left[4];
      to_fragment<T>(x[0][j], x[0][j + 1], left);
      STOA_UNROLL
      for (int s = 0; s < kOwnSteps; ++s) {
        const int step = t.warp() + kTileWarps * s;
        if (step >= tile.steps) continue;
        std::uint32_t right[4];
        load_fragments<true>(t, y, kPitch, 16 * step, 8 * j, false, right);
        t.multiply<T>(left, right[0], right[1], sum[0][2 * s]);
        t.multiply<T>(left, right[2], right[3], sum[0][2 * s + 1]);
      }
    }
  }
};

template <bool kSpan>
void launch_kernel(const AttentionArgs& a, void* stream) {
  const auto start = [&](auto type) {
    using Kernel = LargeHeadsKernel<decltype(type), kSpan>;
    launch<Kernel>({.x = group_row_blocks(a, Kernel::kRows, kSpan),
                    .threads = Kernel::kThreads,
                    .shared = sizeof(typename Kernel::Shared)},
                   stream, a);
  };
  if (a.type == Element::kBF16)
    start(bf16{});
  else
    start(f16{});
}

}  // namespace

void launch_large_cached_heads(const AttentionArgs& a, void* stream) { launch_kernel<false>(a, stream); }
void launch_few_large_heads(const AttentionArgs& a, void* stream) { launch_kernel<true>(a, stream); }

}  // namespace stoa::ops::cuda
