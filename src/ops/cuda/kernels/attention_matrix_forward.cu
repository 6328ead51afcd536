// Attention of 16-bit heads on matrix units: output and log-sums.
#include <cmath>

#include "ops/cuda/kernels/attention_pairs.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// A block owns queries of one head, a warp 16 kM of them, and walks over keys.
template <class T, int kMost>
struct MatrixForwardKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention forward";
  static constexpr int kThreads = kTileThreads;

  static constexpr int kM = kMost <= 128 ? 2 : 1, kOwn = 16 * kM, kQueries = kOwn * kTileWarps,
                       kKeys = kMost <= 64    ? 64
                               : kMost <= 128 ? 32
                                              : 16,
                       kStages = 2;
  using Tile = HeadTile<T, kMost>;
  using Stage = KeyStage<T, kMost, kQueries, kKeys>;
  struct Shared {
    alignas(16) T q[kQueries * Tile::kPitch];
    Stage stages[kStages];
  };
  static_assert(sizeof(Shared) <= kMostTileShared);

  struct Softmax {
    float top[kM][2], sum[kM][2];  // of the lane's rows; each lane sums its own columns
    Sums<kM, kMost / 8> out;
    STOA_DEVICE Softmax() {
      STOA_UNROLL
      for (int m = 0; m < kM; ++m) {
        top[m][0] = top[m][1] = kLowestScore, sum[m][0] = sum[m][1] = 0;
        STOA_UNROLL
        for (int j = 0; j < kMost / 8; ++j) out[m][j][0] = out[m][j][1] = out[m][j][2] = out[m][j][3] = 0;
      }
    }
    // Scores become probabilities up to a factor of the row, which all that was summed has too.
    template <int kN>
    STOA_DEVICE void add(const Thread& t, Sums<kM, kN>& s) {
      STOA_UNROLL
      for (int m = 0; m < kM; ++m) {
        STOA_UNROLL
        for (int half = 0; half < 2; ++half) {
          float high = top[m][half], part = 0;
          STOA_UNROLL
          for (int j = 0; j < kN; ++j) high = fmaxf(high, fmaxf(s[m][j][2 * half], s[m][j][2 * half + 1]));
          high = warp_reduce<Max>(t, high, 4);
          const float shrink = fast_exp(top[m][half] - high);
          top[m][half] = high;
          STOA_UNROLL
          for (int j = 0; j < kN; ++j) {
            STOA_UNROLL
            for (int n = 2 * half; n < 2 * half + 2; ++n) part += s[m][j][n] = fast_exp(s[m][j][n] - high);
          }
          sum[m][half] = sum[m][half] * shrink + part;
          STOA_UNROLL
          for (int j = 0; j < kMost / 8; ++j)
            out[m][j][2 * half] *= shrink, out[m][j][2 * half + 1] *= shrink;
        }
      }
    }
  };

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t.block_x(), a.longest_q, kQueries);
    const Segment segment(a, place.segment);
    if (place.first >= segment.queries) return;
    const Tile tile(t, a.d);
    Shared& shared = *t.shared<Shared>();
    const int head = static_cast<int>(t.block_y()), row = kOwn * t.warp(), first = place.first + row;
    T* q = shared.q + row * Tile::kPitch;
    tile.template load<kQueries>(a, shared.q, a.q, segment.q_begin, head, place.first, segment.queries);
    const Segment::Range mine = segment.keys_of(a, first, kOwn);
    Softmax softmax;
    walk_keys(t, tile, a, segment, head, place.first, shared.stages, [&](int key, const Stage& stage) {
      if (!mine.meets(key, kKeys)) return;
      const Pairs<kQueries, kKeys, false> pairs{t, a, segment, stage.tables, place.first, key, row};
      Sums<kM, kKeys / 8> s = {};
      tile.multiply_rows(q, stage.k, s);
      pairs.scale(s);
      pairs.add_bias(s);
      pairs.hide(s, -INFINITY);
      softmax.add(t, s);
      pairs.drop(s, 1);
      tile.multiply(s, stage.v, softmax.out);
    });
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float& sum = softmax.sum[m][half];
        sum = warp_reduce<Add>(t, sum, 4);
        const int query = first + 16 * m + sum_row(t, 2 * half);
        if (a.lse && t.lane() % 4 == 0 && query < segment.queries)
          a.lse[(segment.q_begin + query) * a.heads + head] =
              sum == 0 ? -INFINITY : softmax.top[m][half] + logf(sum);
      }
    }
    tile.store(
        a, q, softmax.out,
        [&](int m, int half) {
          const float sum = softmax.sum[m][half];
          return sum == 0 ? 0.0f : a.keep_scale / sum;
        },
        a.o, segment.q_begin, head, first, segment.queries);
  }
};

}  // namespace

void launch_matrix_attention_forward(const AttentionArgs& a, void* stream) {
  with_matrix_heads(a, [&](auto type, auto most) {
    using Kernel = MatrixForwardKernel<decltype(type), decltype(most)::value>;
    launch<Kernel>({.x = a.segments * ceil_div(a.longest_q, Kernel::kQueries),
                    .y = a.heads,
                    .threads = Kernel::kThreads,
                    .shared = sizeof(typename Kernel::Shared)},
                   stream, a);
  });
}

}  // namespace stoa::ops::cuda
