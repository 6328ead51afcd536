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

  // Rows of `row` numbers, whose elements are number(r, c).
  template <class Number>
  STOA_DEVICE static void load(const Thread& t, const Work& w, float* to, const Number& row_of) {
    for (int r = t.warp(); r < kTile; r += t.warps()) row_of(r, to + r * w.stride);
  }
  STOA_DEVICE static void load_keys(const Thread& t, const Work& w, const Args& a, const Segment& segment,
                                    int group, int key, const HeadRows& from, float* to) {
    load(t, w, to, [&](int r, float* row) {
      const void* cached = key + r < segment.keys ? cached_row(a, from, segment, group, key + r) : nullptr;
      for (int c = t.lane(); c < a.d; c += 32)
        row[c] = cached ? cached_number(a.cache, cached, c, a.d) : 0.0f;
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
    load(t, w, q, [&](int r, float* row) {
      const bool has = rows.has(r);
      const float* from = rows.template place<const float>(a.q, r);
      for (int c = t.lane(); c < a.d; c += 32) row[c] = has ? from[c] : 0.0f;
    });
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
                    .y = a.groups,
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
