// Attention of 16-bit heads on matrix units: output and log-sums.
#include <cmath>
#include <type_traits>

#include "ops/cuda/kernels/attention_pairs.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_softmax.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block owns queries of one head, a warp 16 kM of them, and walks over keys. kBlocks: those are in blocks
// of a cache, of segments of more than a few queries (attention_few.cu has the others), and sums of a span
// are held besides those of all.
template <class T, int kMost, bool kBlocks>
struct MatrixForwardKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention forward";
  static constexpr int kThreads = kTileThreads;

  static constexpr int kM = kMost <= (kBlocks ? 64 : 128) ? 2 : 1, kOwn = 16 * kM,
                       kQueries = kOwn * kTileWarps, kKeys = kForwardKeys<kMost>, kStages = 2;
  using Tile = HeadTile<T, kMost>;
  using Stage = KeyStage<T, kMost, kQueries, kKeys>;
  struct Shared {
    alignas(16) T q[kQueries * Tile::kPitch];
    Stage stages[kStages];
  };
  static_assert(sizeof(Shared) <= kMostTileShared && kKeySpan % kKeys == 0);
  using Softmax = MatrixSoftmax<kM, kMost / 8>;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t.block_x(), a.longest_q, kQueries);
    const Segment segment(a, place.segment);
    if (place.first >= segment.queries) return;
    if constexpr (kBlocks)
      if (segment.queries <= a.few) return;
    const Tile tile(t, a.d);
    Shared& shared = *t.shared<Shared>();
    const int head = static_cast<int>(t.block_y()), row = kOwn * t.warp(), first = place.first + row;
    T* q = shared.q + row * Tile::kPitch;
    tile.template load<kQueries>(a, shared.q, a.q, segment.q_begin, head, place.first, segment.queries);
    const Segment::Range mine = segment.keys_of(a, first, kOwn);
    Softmax softmax, all;  // `all`: of the spans before
    const auto end_span = [&] {
      softmax.add_lanes(t);
      all.join(softmax);
    };
    walk_keys<kBlocks>(
        t, tile, a, segment, head, place.first, shared.stages, [&](int key, const Stage& stage) {
          if (!mine.meets(key, kKeys)) return;
          const Pairs<kQueries, kKeys, false> pairs{t, a, segment, stage.tables, place.first, key, row};
          Sums<kM, kKeys / 8> s = {};
          tile.multiply_rows(q, stage.k, s);
          pairs.scale(s);
          pairs.add_bias(s);
          pairs.hide(s, -INFINITY);
          softmax.add(t, s);
          if constexpr (!kBlocks) pairs.drop(s, 1);
          tile.multiply(s, stage.v, softmax.out);
          if constexpr (kBlocks) {
            if ((key + kKeys) % kKeySpan != 0) return;
            end_span();
            softmax.clear();
          }
        });
    if constexpr (kBlocks) {
      end_span();
      softmax = all;
    } else {
      softmax.add_lanes(t);
    }
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float sum = softmax.sum[m][half];
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
    const auto start = [&](auto blocks) {
      using Kernel = MatrixForwardKernel<decltype(type), decltype(most)::value, decltype(blocks)::value>;
      launch<Kernel>({.x = a.segments * ceil_div(a.longest_q, Kernel::kQueries),
                      .y = a.heads,
                      .threads = Kernel::kThreads,
                      .shared = sizeof(typename Kernel::Shared)},
                     stream, a);
    };
    if (a.block_rows > 0)
      start(std::true_type{});
    else
      start(std::false_type{});
  });
}

}  // namespace stoa::ops::cuda
