// Attention in fp32 over keys in blocks of a cache, without matrix units.
#include "ops/cuda/kernels/attention_cached_tiles.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_rows.h"
#include "ops/cuda/kernels/attention_scalar_tiles.h"

namespace stoa::ops::cuda {
namespace {

// A block owns kTile rows, each a query and a head of one group, and walks over keys: of one span, whose
// softmax it leaves as a state (kSpan), or of all.
template <int kTile, int kMost, bool kSpan>
struct CachedScalarKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = kSpan ? "attention of a few queries" : "attention forward";
  static constexpr int kThreads = kScalarThreads;
  static_assert(kKeySpan % kTile == 0);

  static constexpr int kPerLane = kMost / 32, kRowsAtOnce = kPerLane <= 4 ? 4 : kPerLane <= 8 ? 2 : 1;
  static_assert(kTile % (kRowsAtOnce * kScalarThreads / 32) == 0);

  // Rows of a tile, a warp a row: number(row, column) is asked for a few rows at once.
  template <class RowAt, class Number>
  STOA_DEVICE static void load(const Thread& t, const Work& w, float* to, const RowAt& row_at,
                               const Number& number) {
    for (int first = t.warp(); first < kTile; first += kRowsAtOnce * t.warps()) {
      float x[kRowsAtOnce][kPerLane];
      STOA_UNROLL
      for (int j = 0; j < kRowsAtOnce; ++j) {
        const auto row = row_at(first + j * t.warps());
        STOA_UNROLL
        for (int i = 0; i < kPerLane; ++i) {
          const int c = t.lane() + 32 * i;
          x[j][i] = row && c < w.d ? number(row, c) : 0.0f;
        }
      }
      STOA_UNROLL
      for (int j = 0; j < kRowsAtOnce; ++j) {
        STOA_UNROLL
        for (int i = 0; i < kPerLane; ++i) {
          const int c = t.lane() + 32 * i;
          if (c < w.d) to[(first + j * t.warps()) * w.stride + c] = x[j][i];
        }
      }
    }
  }
  STOA_DEVICE static void load_keys(const Thread& t, const Work& w, const Args& a, const Segment& segment,
                                    int group, int key, const HeadRows& from, float* to) {
    with_form(a.cache, [&](auto form) {
      load(
          t, w, to,
          [&](int r) {
            return key + r < segment.keys ? cached_row(a, from, segment, group, key + r) : nullptr;
          },
          [&](const void* row, int c) { return cached_number<decltype(form)::value>(row, c, a.d); });
    });
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const GroupRows<kSpan> rows(t, a, kTile);
    if (rows.none()) return;
    const Segment& segment = rows.segment;
    const Work w(t, a.d);
    float *q = w.tile(0), *kv = w.tile(1), *scores = w.tile(2);
    const Segment::Range range = rows.keys_of_tile(kTile);
    if (kSpan && range.begin >= range.end) return;
    load(
        t, w, q, [&](int r) { return rows.has(r) ? rows.template place<const float>(a.q, r) : nullptr; },
        [](const float* row, int c) { return row[c]; });
    const int query = rows.query(w.row), head = rows.head(w.row);
    ScalarSoftmax<Work> softmax, all;  // `all`: of the spans before
    for (int key = range.begin / kTile * kTile; key < range.end; key += kTile) {
      t.sync();
      load_keys(t, w, a, segment, rows.group, key, a.k, kv);
      t.sync();
      float s[Work::kScores];
      w.dots(q, kv, s);
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int at = key + w.share + Work::kShare * j;
        s[j] = segment.visible(a, query, at) ? segment.score(a, head, query, at, s[j]) : -INFINITY;
      }
      softmax.add(w, s, scores, [](int) { return 1.0f; });
      t.sync();
      load_keys(t, w, a, segment, rows.group, key, a.v, kv);
      t.sync();
      w.add(scores, kv, softmax.out);
      if (!kSpan && (key + kTile) % kKeySpan == 0) {
        all.join(softmax);
        softmax.clear();
      }
    }
    if constexpr (!kSpan) all.join(softmax);
    if (!rows.has(w.row)) return;
    if constexpr (kSpan) {
      float* state = rows.state(w.row);
      w.store({state, 0}, 0, 0, softmax.out, 1);
      if (w.share == 0) state[a.d] = softmax.top, state[a.d + 1] = softmax.sum;
    } else {
      const std::int64_t row = segment.q_begin + query;
      w.store(a.o, row, head, all.out, all.factor());
      if (a.lse && w.share == 0) a.lse[row * a.heads + head] = all.lse();
    }
  }
};

template <bool kSpan>
void launch_cached(const AttentionArgs& a, void* stream) {
  const auto start = [&](auto tile, auto most) {
    constexpr int kTile = decltype(tile)::value;
    using Kernel = CachedScalarKernel<kTile, decltype(most)::value, kSpan>;
    launch<Kernel>({.x = group_row_blocks(a, kTile, kSpan),
                    .threads = Kernel::kThreads,
                    .shared = scalar_shared_bytes(kTile, a.d, 2, 1, 0)},
                   stream, a);
  };
  if (a.d > kLargestHead)
    start(Width<16>{}, Width<kLargestCachedHead>{});
  else
    with_scalar_tiles(a.d, start);
}

}  // namespace

void launch_cached_scalar_attention(const AttentionArgs& a, void* stream) { launch_cached<false>(a, stream); }
void launch_few_scalar_queries(const AttentionArgs& a, void* stream) { launch_cached<true>(a, stream); }

}  // namespace stoa::ops::cuda
