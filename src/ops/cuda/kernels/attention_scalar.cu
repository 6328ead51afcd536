#include <cmath>

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 128;
constexpr float kLowest = -3.402823466e38f;

STOA_DEVICE float element(Element type, const HeadRows& rows, std::int64_t row, int column) {
  const std::int64_t i = row * rows.stride + column;
  if (type == Element::kBF16) return widen(static_cast<const bf16*>(rows.data)[i]);
  if (type == Element::kF16) return widen(static_cast<const f16*>(rows.data)[i]);
  return static_cast<const float*>(rows.data)[i];
}
STOA_DEVICE void set_element(Element type, const HeadRows& rows, std::int64_t row, int column, float value) {
  const std::int64_t i = row * rows.stride + column;
  if (type == Element::kBF16)
    narrow(value, static_cast<bf16*>(rows.data)[i]);
  else if (type == Element::kF16)
    narrow(value, static_cast<f16*>(rows.data)[i]);
  else
    static_cast<float*>(rows.data)[i] = value;
}

// A block owns kTile rows (queries or keys) and walks tiles of the other side. kBlock / kTile threads share a
// row: each has every kShare-th of the other side's scores, and every kShare-th column of what is summed.
template <int kTile, int kMost>
struct Tiles {
  static constexpr int kShare = kBlock / kTile;
  static constexpr int kScores = kTile / kShare;
  static constexpr int kColumns = kMost / kShare;

  const Thread& t;
  const int d, stride, row, share;

  STOA_DEVICE Tiles(const Thread& thread, int head_size)
      : t(thread),
        d(head_size),
        stride(head_size | 1),  // odd: no two rows begin in one bank
        row(thread.index() / kShare),
        share(thread.index() % kShare) {}

  STOA_DEVICE static constexpr std::size_t tile_floats(int head_size) {
    return static_cast<std::size_t>(kTile) * static_cast<std::size_t>(head_size | 1);
  }
  STOA_DEVICE float* tile(int which) const { return t.shared<float>() + which * kTile * stride; }

  // Rows [first, first + kTile) of one head; those from `end` on are zeros. The type is looked at here and
  // not at compile time: everything behind it is fp32.
  STOA_DEVICE void load(const AttentionArgs& a, float* to, const HeadRows& from, std::int64_t base, int head,
                        int first, int end) const {
    for (int i = t.index(); i < kTile * d; i += kBlock) {
      const int r = i / d, c = i - r * d;
      to[r * stride + c] = first + r < end ? element(a.type, from, base + first + r, head * d + c) : 0.0f;
    }
  }
  // own[row] · other[j] for the scores of this thread: j = share + kShare * s.
  STOA_DEVICE void dots(const float* own, const float* other, float (&out)[kScores]) const {
    STOA_UNROLL
    for (int s = 0; s < kScores; ++s) out[s] = 0;
    for (int c = 0; c < d; ++c) {
      const float x = own[row * stride + c];
      STOA_UNROLL
      for (int s = 0; s < kScores; ++s) out[s] = fmaf(x, other[(share + kShare * s) * stride + c], out[s]);
    }
  }
  // sum[columns of this thread] += scores[row][j] * other[j].
  STOA_DEVICE void add(const float* scores, const float* other, float (&sum)[kColumns]) const {
    for (int j = 0; j < kTile; ++j) {
      const float p = scores[row * (kTile + 1) + j];
      STOA_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const int column = share + kShare * c;
        if (column < d) sum[c] = fmaf(p, other[j * stride + column], sum[c]);
      }
    }
  }
  STOA_DEVICE void store(const AttentionArgs& a, const HeadRows& to, std::int64_t at, int head,
                         const float (&sum)[kColumns], float factor) const {
    STOA_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int column = share + kShare * c;
      if (column < d) set_element(a.type, to, at, head * d + column, sum[c] * factor);
    }
  }
};

// Block (x, y): x = segment * tiles + tile, y = head. Late tiles, which have most keys, come first.
struct Place {
  std::int64_t segment;
  int first;  // row of the segment
  STOA_DEVICE Place(const Thread& t, std::int64_t longest, int tile)
      : segment(t.block_x() / ((longest + tile - 1) / tile)),
        first(static_cast<int>(
            ((longest + tile - 1) / tile - 1 - t.block_x() % ((longest + tile - 1) / tile)) * tile)) {}
};

template <int kTile, int kMost>
struct ForwardKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention forward";
  static constexpr int kThreads = kBlock;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t, a.longest_q, kTile);
    const Segment segment(a, place.segment);
    if (place.first >= segment.queries) return;
    const Work w(t, a.d);
    const int head = static_cast<int>(t.block_y()), group = head / (a.heads / a.groups),
              query = place.first + w.row;
    float *q = w.tile(0), *kv = w.tile(1), *scores = w.tile(2);
    w.load(a, q, a.q, segment.q_begin, head, place.first, segment.queries);
    const int last = place.first + kTile < segment.queries ? place.first + kTile - 1 : segment.queries - 1;
    const Segment::Range range = segment.keys_of(a, place.first, last);
    float top = kLowest, sum = 0, out[Work::kColumns];
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) out[c] = 0;
    for (int key = range.begin / kTile * kTile; key < range.end; key += kTile) {
      t.sync();
      w.load(a, kv, a.k, segment.k_begin, group, key, segment.keys);
      t.sync();
      float s[Work::kScores], high = top;
      w.dots(q, kv, s);
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int column = w.share + Work::kShare * j;
        s[j] = segment.score(a, head, query, key + column, s[j]).value;
        if (segment.visible(a, query, key + column))
          high = Max::of(high, s[j]);
        else
          s[j] = -INFINITY;
      }
      high = warp_reduce<Max>(t, high, Work::kShare);
      const float shrink = expf(top - high);
      top = high;
      float part = 0;
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int column = w.share + Work::kShare * j;
        const float p = expf(s[j] - high);
        part += p;
        scores[w.row * (kTile + 1) + column] = p == 0 ? 0 : p * segment.keep(a, head, query, key + column);
      }
      sum = sum * shrink + warp_reduce<Add>(t, part, Work::kShare);
      STOA_UNROLL
      for (int c = 0; c < Work::kColumns; ++c) out[c] *= shrink;
      t.sync();
      w.load(a, kv, a.v, segment.k_begin, group, key, segment.keys);
      t.sync();
      w.add(scores, kv, out);
    }
    if (query >= segment.queries) return;
    const std::int64_t row = segment.q_begin + query;
    w.store(a, a.o, row, head, out, sum == 0 ? 0.0f : 1.0f / sum);
    if (a.lse && w.share == 0) a.lse[row * a.heads + head] = sum == 0 ? -INFINITY : top + logf(sum);
  }
};

// delta = sum of dout * o over a head: a warp per (row, head).
struct DeltaKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, delta";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * t.warps() + t.warp(), row = i / a.heads;
    const int head = static_cast<int>(i - row * a.heads);
    const bool mine = row < a.q_rows;
    float sum = 0;
    if (mine) {
      for (int c = t.lane(); c < a.d; c += 32)
        sum = fmaf(element(a.type, a.dout, row, head * a.d + c), element(a.type, a.o, row, head * a.d + c),
                   sum);
    }
    sum = warp_reduce<Add>(t, sum);
    if (mine && t.lane() == 0) a.delta[i] = sum;
  }
};

// Queries own the block: dq = sum over keys of ds k.
template <int kTile, int kMost>
struct BackwardQueryKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention backward, queries";
  static constexpr int kThreads = kBlock;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t, a.longest_q, kTile);
    const Segment segment(a, place.segment);
    if (place.first >= segment.queries) return;
    const Work w(t, a.d);
    const int head = static_cast<int>(t.block_y()), group = head / (a.heads / a.groups),
              query = place.first + w.row;
    float *q = w.tile(0), *g = w.tile(1), *k = w.tile(2), *v = w.tile(3), *scores = w.tile(4);
    w.load(a, q, a.q, segment.q_begin, head, place.first, segment.queries);
    w.load(a, g, a.dout, segment.q_begin, head, place.first, segment.queries);
    const std::int64_t row = segment.q_begin + query;
    const bool mine = query < segment.queries;
    const float lse = mine ? a.lse[row * a.heads + head] : 0,
                delta = mine ? a.delta[row * a.heads + head] : 0;
    const int last = place.first + kTile < segment.queries ? place.first + kTile - 1 : segment.queries - 1;
    const Segment::Range range = segment.keys_of(a, place.first, last);
    float dq[Work::kColumns];
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) dq[c] = 0;
    for (int key = range.begin / kTile * kTile; key < range.end; key += kTile) {
      t.sync();
      w.load(a, k, a.k, segment.k_begin, group, key, segment.keys);
      w.load(a, v, a.v, segment.k_begin, group, key, segment.keys);
      t.sync();
      float s[Work::kScores], dp[Work::kScores];
      w.dots(q, k, s);
      w.dots(g, v, dp);
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int column = w.share + Work::kShare * j;
        float ds = 0;
        if (segment.visible(a, query, key + column)) {
          const Segment::Score score = segment.score(a, head, query, key + column, s[j]);
          ds = expf(score.value - lse) * (dp[j] * segment.keep(a, head, query, key + column) - delta) *
               score.slope;
        }
        scores[w.row * (kTile + 1) + column] = ds;
      }
      t.sync_warp();  // a row's scores are written and read by one warp
      w.add(scores, k, dq);
    }
    if (mine) w.store(a, a.dq, row, head, dq, a.scale);
  }
};

// Keys own the block: dk = sum over queries of ds q, dv = sum of p dout, over all heads of the group.
template <int kTile, int kMost>
struct BackwardKeyKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention backward, keys";
  static constexpr int kThreads = kBlock;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t, a.longest_k, kTile);
    const Segment segment(a, place.segment);
    if (place.first >= segment.keys) return;
    const Work w(t, a.d);
    const int group = static_cast<int>(t.block_y()), each = a.heads / a.groups, key = place.first + w.row;
    float *k = w.tile(0), *v = w.tile(1), *q = w.tile(2), *g = w.tile(3), *ds = w.tile(4),
          *ps = ds + kTile * (kTile + 1), *lse = ps + kTile * (kTile + 1), *delta = lse + kTile;
    w.load(a, k, a.k, segment.k_begin, group, place.first, segment.keys);
    w.load(a, v, a.v, segment.k_begin, group, place.first, segment.keys);
    const int last = place.first + kTile < segment.keys ? place.first + kTile - 1 : segment.keys - 1;
    const Segment::Range range = segment.queries_of(a, place.first, last);
    float dk[Work::kColumns], dv[Work::kColumns];
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) dk[c] = dv[c] = 0;
    for (int head = group * each; head < (group + 1) * each; ++head) {
      for (int query = range.begin / kTile * kTile; query < range.end; query += kTile) {
        t.sync();
        w.load(a, q, a.q, segment.q_begin, head, query, segment.queries);
        w.load(a, g, a.dout, segment.q_begin, head, query, segment.queries);
        for (int i = t.index(); i < kTile; i += kBlock) {
          const bool given = query + i < segment.queries;
          const std::int64_t at = (segment.q_begin + query + i) * a.heads + head;
          lse[i] = given ? a.lse[at] : 0;
          delta[i] = given ? a.delta[at] : 0;
        }
        t.sync();
        float s[Work::kScores], dp[Work::kScores];
        w.dots(k, q, s);
        w.dots(v, g, dp);
        STOA_UNROLL
        for (int j = 0; j < Work::kScores; ++j) {
          const int column = w.share + Work::kShare * j;
          float p = 0, keep = 0, slope = 0;
          if (segment.visible(a, query + column, key)) {
            const Segment::Score score = segment.score(a, head, query + column, key, s[j]);
            p = expf(score.value - lse[column]), slope = score.slope;
            keep = segment.keep(a, head, query + column, key);
          }
          ps[w.row * (kTile + 1) + column] = p * keep;
          ds[w.row * (kTile + 1) + column] = p == 0 ? 0 : p * (dp[j] * keep - delta[column]) * slope;
        }
        t.sync_warp();
        w.add(ds, q, dk);
        w.add(ps, g, dv);
      }
    }
    if (key >= segment.keys) return;
    w.store(a, a.dk, segment.k_begin + key, group, dk, a.scale);
    w.store(a, a.dv, segment.k_begin + key, group, dv, 1);
  }
};

// Gradient of one entry of a relative bias: block (x, y) = (row of the table, head), a warp per query. The
// scores are made once more, so that one block has all terms of its sum and adds them in a fixed order.
struct BiasGradientKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, relative bias";
  static constexpr int kThreads = 256;

  STOA_DEVICE static float dot(const Thread& t, const Args& a, const HeadRows& x, std::int64_t x_row,
                               int x_head, const HeadRows& y, std::int64_t y_row, int y_head) {
    float sum = 0;
    for (int c = t.lane(); c < a.d; c += 32)
      sum =
          fmaf(element(a.type, x, x_row, x_head * a.d + c), element(a.type, y, y_row, y_head * a.d + c), sum);
    return warp_reduce<Add>(t, sum);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t entry = t.block_x();
    const int head = static_cast<int>(t.block_y()), group = head / (a.heads / a.groups);
    float sum = 0;
    for (std::int64_t s = 0; s < a.segments; ++s) {
      const Segment segment(a, s);
      for (int query = static_cast<int>(t.warp()); query < segment.queries;
           query += static_cast<int>(t.warps())) {
        const std::int64_t row = segment.q_begin + query, here = segment.at(query) + a.first_offset + entry;
        // The first and the last row stand for all offsets beyond.
        const std::int64_t first = entry == 0 ? 0 : here,
                           last = entry == a.offsets - 1 ? segment.keys - 1 : here;
        for (std::int64_t k = first < 0 ? 0 : first; k <= last && k < segment.keys; ++k) {
          const int key = static_cast<int>(k);
          if (!segment.visible(a, query, key)) continue;
          const float product = dot(t, a, a.q, row, head, a.k, segment.k_begin + key, group),
                      slope = dot(t, a, a.dout, row, head, a.v, segment.k_begin + key, group);
          const float p =
              expf(segment.score(a, head, query, key, product).value - a.lse[row * a.heads + head]);
          sum += p * (slope * segment.keep(a, head, query, key) - a.delta[row * a.heads + head]);
        }
      }
    }
    float* parts = t.shared<float>();
    if (t.lane() == 0) parts[t.warp()] = sum;
    t.sync();
    if (t.index() != 0) return;
    for (int w = 1; w < static_cast<int>(t.warps()); ++w) sum += parts[w];
    a.bias_gradient[entry * a.dbias_stride + head] += sum;
  }
};

// Calls body with the tile and the largest head size: large heads take smaller tiles, for shared memory.
template <class Body>
void with_tiles(int d, Body&& body) {
  if (d <= 64)
    body(Width<32>{}, Width<64>{});
  else if (d <= 128)
    body(Width<32>{}, Width<128>{});
  else
    body(Width<16>{}, Width<256>{});
}

std::size_t shared_bytes(int tile, int d, int tiles, int scores, int vectors) {
  return sizeof(float) *
         static_cast<std::size_t>(tiles * tile * (d | 1) + scores * tile * (tile + 1) + vectors * tile);
}

}  // namespace

void launch_attention_forward(const AttentionArgs& a, void* stream) {
  if (a.q_rows == 0 || a.segments == 0) return;
  with_tiles(a.d, [&](auto tile, auto most) {
    constexpr int kTile = decltype(tile)::value, kMost = decltype(most)::value;
    launch<ForwardKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_q, kTile),
                                         .y = a.heads,
                                         .threads = kBlock,
                                         .shared = shared_bytes(kTile, a.d, 2, 1, 0)},
                                        stream, a);
  });
}

void launch_attention_backward(const AttentionArgs& a, void* stream) {
  for (const HeadRows& rows : {a.dk, a.dv})
    launch_fill_rows(
        {.data = rows.data, .type = a.type, .stride = rows.stride, .columns = std::int64_t{a.groups} * a.d},
        a.k_rows, stream);
  if (a.q_rows == 0 || a.segments == 0) return;
  launch<DeltaKernel>({.x = ceil_div(a.q_rows * a.heads, 8), .threads = 256}, stream, a);
  with_tiles(a.d, [&](auto tile, auto most) {
    constexpr int kTile = decltype(tile)::value, kMost = decltype(most)::value;
    launch<BackwardQueryKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_q, kTile),
                                               .y = a.heads,
                                               .threads = kBlock,
                                               .shared = shared_bytes(kTile, a.d, 4, 1, 0)},
                                              stream, a);
    launch<BackwardKeyKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_k, kTile),
                                             .y = a.groups,
                                             .threads = kBlock,
                                             .shared = shared_bytes(kTile, a.d, 4, 2, 2)},
                                            stream, a);
  });
  if (a.bias_gradient)
    launch<BiasGradientKernel>({.x = a.offsets, .y = a.heads, .threads = 256, .shared = 8 * sizeof(float)},
                               stream, a);
}

}  // namespace stoa::ops::cuda
