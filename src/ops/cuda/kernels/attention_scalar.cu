// Attention in fp32, without matrix units.
#include <cmath>

#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_scalar_tiles.h"

namespace stoa::ops::cuda {
namespace {

struct Score {
  float value;
  float slope;  // derivative by the scaled product
};
STOA_DEVICE Score score_of(const Segment& segment, const AttentionArgs& a, int head, int query, int key,
                           float product) {
  return {segment.score(a, head, query, key, product), Segment::slope(a, Segment::scaled(a, product))};
}

// Factor of the probability of (query, key): 0 or 1/(1-p).
STOA_DEVICE float kept_factor(const Segment& segment, const AttentionArgs& a, int head, int query, int key) {
  if (a.dropout == 0) return 1;
  const std::uint32_t k = segment.position + static_cast<std::uint32_t>(key), which = k & 3u;
  const Words4 words = segment.dropout_words(a, head, query, k >> 2);
  const std::uint32_t word = which == 0   ? words.w[0]
                             : which == 1 ? words.w[1]
                             : which == 2 ? words.w[2]
                                          : words.w[3];
  return Segment::is_kept(a, word) ? a.keep_scale : 0.0f;
}

// The queries of one head that a block owns, and the keys that they see.
template <int kTile, int kMost>
struct OwnQueries {
  const AttentionArgs& a;
  const Place place;
  const Segment segment;
  const Tiles<kTile, kMost> w;
  const int head, group, query;  // query: of this thread

  STOA_DEVICE OwnQueries(const Thread& t, const AttentionArgs& args)
      : a(args),
        place(t.block_x(), args.longest_q, kTile),
        segment(args, place.segment),
        w(t, args.d),
        head(static_cast<int>(t.block_y())),
        group(head / (args.heads / args.groups)),
        query(place.first + w.row) {}

  STOA_DEVICE bool none() const { return place.first >= segment.queries; }
  STOA_DEVICE bool mine() const { return query < segment.queries; }
  STOA_DEVICE std::int64_t row() const { return segment.q_begin + query; }
  STOA_DEVICE std::int64_t lse_at() const { return row() * a.heads + head; }

  STOA_DEVICE void load(float* to, const HeadRows& from) const {
    w.load(to, from, segment.q_begin, head, place.first, segment.queries);
  }
  STOA_DEVICE void load_keys(float* to, const HeadRows& from, int key) const {
    w.load(to, from, segment.k_begin, group, key, segment.keys);
  }
  // Calls body(key) for the tiles of keys, from `key` on.
  template <class Body>
  STOA_DEVICE void walk_keys(const Body& body) const {
    const Segment::Range range = segment.keys_of(a, place.first, kTile);
    for (int key = range.begin / kTile * kTile; key < range.end; key += kTile) body(key);
  }
};

template <int kTile, int kMost>
struct ScalarForwardKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention forward";
  static constexpr int kThreads = kScalarThreads;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const OwnQueries<kTile, kMost> own(t, a);
    if (own.none()) return;
    const Segment& segment = own.segment;
    const Work& w = own.w;
    const int head = own.head, query = own.query;
    float *q = w.tile(0), *kv = w.tile(1), *scores = w.tile(2);
    own.load(q, a.q);
    ScalarSoftmax<Work> softmax;
    own.walk_keys([&](int key) {
      t.sync();
      own.load_keys(kv, a.k, key);
      t.sync();
      float s[Work::kScores];
      w.dots(q, kv, s);
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int at = key + w.share + Work::kShare * j;
        s[j] = segment.visible(a, query, at) ? score_of(segment, a, head, query, at, s[j]).value : -INFINITY;
      }
      softmax.add(w, s, scores,
                  [&](int column) { return kept_factor(segment, a, head, query, key + column); });
      t.sync();
      own.load_keys(kv, a.v, key);
      t.sync();
      w.add(scores, kv, softmax.out);
    });
    if (!own.mine()) return;
    w.store(a.o, own.row(), head, softmax.out, softmax.factor());
    if (a.lse && w.share == 0) a.lse[own.lse_at()] = softmax.lse();
  }
};

// Queries own the block: dq = sum over keys of ds k.
template <int kTile, int kMost>
struct ScalarQueryKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention backward, queries";
  static constexpr int kThreads = kScalarThreads;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const OwnQueries<kTile, kMost> own(t, a);
    if (own.none()) return;
    const Segment& segment = own.segment;
    const Work& w = own.w;
    const int head = own.head, query = own.query;
    float *q = w.tile(0), *g = w.tile(1), *k = w.tile(2), *v = w.tile(3), *scores = w.tile(4);
    own.load(q, a.q);
    own.load(g, a.dout);
    const float lse = own.mine() ? a.lse[own.lse_at()] : 0, delta = own.mine() ? a.delta[own.lse_at()] : 0;
    float dq[Work::kColumns];
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) dq[c] = 0;
    own.walk_keys([&](int key) {
      t.sync();
      own.load_keys(k, a.k, key);
      own.load_keys(v, a.v, key);
      t.sync();
      float s[Work::kScores], dp[Work::kScores];
      w.dots(q, k, s);
      w.dots(g, v, dp);
      STOA_UNROLL
      for (int j = 0; j < Work::kScores; ++j) {
        const int column = w.share + Work::kShare * j;
        float ds = 0;
        if (segment.visible(a, query, key + column)) {
          const Score score = score_of(segment, a, head, query, key + column, s[j]);
          ds = expf(score.value - lse) *
               (dp[j] * kept_factor(segment, a, head, query, key + column) - delta) * score.slope;
        }
        scores[w.row * (kTile + 1) + column] = ds;
      }
      t.sync_warp();  // a row's scores are written and read by one warp
      w.add(scores, k, dq);
    });
    if (own.mine()) w.store(a.dq, own.row(), head, dq, a.scale);
  }
};

// Keys own the block: dk = sum over queries of ds q, dv = sum of p dout, over all heads of the group.
template <int kTile, int kMost>
struct ScalarKeyKernel {
  using Args = AttentionArgs;
  using Work = Tiles<kTile, kMost>;
  static constexpr const char* kName = "attention backward, keys";
  static constexpr int kThreads = kScalarThreads;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t.block_x(), a.longest_k, kTile);
    const Segment segment(a, place.segment);
    if (place.first >= segment.keys) return;
    const Work w(t, a.d);
    const int group = static_cast<int>(t.block_y()), each = a.heads / a.groups, key = place.first + w.row;
    float *k = w.tile(0), *v = w.tile(1), *q = w.tile(2), *g = w.tile(3), *ds = w.tile(4),
          *ps = ds + kTile * (kTile + 1), *lse = ps + kTile * (kTile + 1), *delta = lse + kTile;
    w.load(k, a.k, segment.k_begin, group, place.first, segment.keys);
    w.load(v, a.v, segment.k_begin, group, place.first, segment.keys);
    const Segment::Range range = segment.queries_of(a, place.first, kTile);
    float dk[Work::kColumns], dv[Work::kColumns];
    STOA_UNROLL
    for (int c = 0; c < Work::kColumns; ++c) dk[c] = dv[c] = 0;
    for (int head = group * each; head < (group + 1) * each; ++head) {
      for (int query = range.begin / kTile * kTile; query < range.end; query += kTile) {
        t.sync();
        w.load(q, a.q, segment.q_begin, head, query, segment.queries);
        w.load(g, a.dout, segment.q_begin, head, query, segment.queries);
        for (int i = t.index(); i < kTile; i += kScalarThreads) {
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
            const Score score = score_of(segment, a, head, query + column, key, s[j]);
            p = expf(score.value - lse[column]), slope = score.slope;
            keep = kept_factor(segment, a, head, query + column, key);
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
    w.store(a.dk, segment.k_begin + key, group, dk, a.scale);
    w.store(a.dv, segment.k_begin + key, group, dv, 1);
  }
};

// Gradient of one entry of a relative bias: block (x, y) = (row of the table, head), a warp per query. The
// scores are made once more, so that one block has all terms of its sum and adds them in a fixed order.
struct ScalarBiasKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, relative bias";
  static constexpr int kThreads = 256;

  STOA_DEVICE static float dot(const Thread& t, const Args& a, const HeadRows& x, std::int64_t x_row,
                               int x_head, const HeadRows& y, std::int64_t y_row, int y_head) {
    float sum = 0;
    for (int c = t.lane(); c < a.d; c += 32)
      sum = fmaf(head_element(x, x_row, x_head * a.d + c), head_element(y, y_row, y_head * a.d + c), sum);
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
              expf(score_of(segment, a, head, query, key, product).value - a.lse[row * a.heads + head]);
          sum += p * (slope * kept_factor(segment, a, head, query, key) - a.delta[row * a.heads + head]);
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

}  // namespace

void launch_scalar_attention_forward(const AttentionArgs& a, void* stream) {
  with_scalar_tiles(a.d, [&](auto tile, auto most) {
    constexpr int kTile = decltype(tile)::value, kMost = decltype(most)::value;
    launch<ScalarForwardKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_q, kTile),
                                               .y = a.heads,
                                               .threads = kScalarThreads,
                                               .shared = scalar_shared_bytes(kTile, a.d, 2, 1, 0)},
                                              stream, a);
  });
}

void launch_scalar_attention_backward(const AttentionArgs& a, void* stream) {
  with_scalar_tiles(a.d, [&](auto tile, auto most) {
    constexpr int kTile = decltype(tile)::value, kMost = decltype(most)::value;
    launch<ScalarQueryKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_q, kTile),
                                             .y = a.heads,
                                             .threads = kScalarThreads,
                                             .shared = scalar_shared_bytes(kTile, a.d, 4, 1, 0)},
                                            stream, a);
    launch<ScalarKeyKernel<kTile, kMost>>({.x = a.segments * ceil_div(a.longest_k, kTile),
                                           .y = a.groups,
                                           .threads = kScalarThreads,
                                           .shared = scalar_shared_bytes(kTile, a.d, 4, 2, 2)},
                                          stream, a);
  });
  if (a.bias_gradient)
    launch<ScalarBiasKernel>({.x = a.offsets, .y = a.heads, .threads = 256, .shared = 8 * sizeof(float)},
                             stream, a);
}

}  // namespace stoa::ops::cuda
