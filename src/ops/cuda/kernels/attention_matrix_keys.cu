// Backward pass of attention of 16-bit heads on matrix units: gradients of keys and values.
#include "ops/cuda/kernels/attention_pairs.h"
#include "ops/cuda/kernels/attention_paths.h"

namespace stoa::ops::cuda {
namespace {

// A block owns keys of one group, a warp 16 of them, and walks over the queries of all heads of the group: dk
// = sum of ds q, dv = sum of p dout. Both at once where registers hold both.
template <class T, int kMost, bool kKeyGradient, bool kValueGradient>
struct MatrixKeyKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention backward, keys";
  static constexpr int kThreads = kTileThreads;

  static constexpr int kOwn = 16, kKeys = kOwn * kTileWarps,
                       kQueries = kMost <= 64    ? 64
                                  : kMost <= 128 ? 32
                                                 : 16,
                       kStages = kMost <= 128 ? 2 : 1;
  using Tile = HeadTile<T, kMost>;
  using Tables = PairTables<kQueries, kKeys>;
  struct Stage {
    alignas(16) T q[kQueries * Tile::kPitch], g[kQueries * Tile::kPitch];
    float lse[kQueries], delta[kQueries];
    Tables tables;
  };
  struct Shared {
    alignas(16) T k[kKeys * Tile::kPitch], v[kKeys * Tile::kPitch];
    Stage stages[kStages];
  };
  static_assert(sizeof(Shared) <= kMostTileShared);

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const Place place(t.block_x(), a.longest_k, kKeys);
    const Segment segment(a, place.segment);
    if (place.first >= segment.keys) return;
    const Tile tile(t, a.d);
    Shared& shared = *t.shared<Shared>();
    const int group = static_cast<int>(t.block_y()), each = a.heads / a.groups;
    const int row = kOwn * t.warp(), first = place.first + row;
    T *k = shared.k + row * Tile::kPitch, *v = shared.v + row * Tile::kPitch;
    tile.template load<kKeys>(a, shared.k, a.k, segment.k_begin, group, place.first, segment.keys);
    tile.template load<kKeys>(a, shared.v, a.v, segment.k_begin, group, place.first, segment.keys);
    const Segment::Range range = segment.queries_of(a, place.first, kKeys),
                         mine = segment.queries_of(a, first, kOwn);
    const int begin = range.begin / kQueries * kQueries,
              tiles = range.end > begin ? (range.end - begin + kQueries - 1) / kQueries : 0;
    Sums<1, kMost / 8> dk = {}, dv = {};
    walk<kStages>(
        t, each * tiles,
        [&](int i, int which) {
          Stage& stage = shared.stages[which];
          const int head = group * each + i / tiles, query = begin + i % tiles * kQueries;
          tile.template load<kQueries>(a, stage.q, a.q, segment.q_begin, head, query, segment.queries);
          tile.template load<kQueries>(a, stage.g, a.dout, segment.q_begin, head, query, segment.queries);
          for (int n = t.index(); n < kQueries; n += kThreads) {
            const bool given = query + n < segment.queries;
            const std::int64_t at = (segment.q_begin + query + n) * a.heads + head;
            stage.lse[n] = given ? a.lse[at] : 0;
            stage.delta[n] = given ? a.delta[at] : 0;
          }
          stage.tables.fill(t, a, segment, head, query, place.first);
        },
        [&](int i, int which) {
          const Stage& stage = shared.stages[which];
          const int query = begin + i % tiles * kQueries;
          if (!mine.meets(query, kQueries)) return;
          const Pairs<kQueries, kKeys, true> pairs{t, a, segment, stage.tables, query, place.first, row};
          const auto for_each = [&](const auto& body) {
            pairs.template for_each<1, kQueries / 8>(
                [&](int q, int, int m, int j, int n) { body(q, m, j, n); });
          };
          Sums<1, kQueries / 8> p = {}, ds = {};
          tile.multiply_rows(k, stage.q, p);
          pairs.scale(p);
          if constexpr (kKeyGradient) {
            tile.multiply_rows(v, stage.g, ds);
            pairs.drop(ds, a.keep_scale);
            for_each([&](int q, int m, int j, int n) { ds[m][j][n] -= stage.delta[q]; });
            pairs.slope(p, ds);
          }
          pairs.add_bias(p);
          for_each([&](int q, int m, int j, int n) { p[m][j][n] = fast_exp(p[m][j][n] - stage.lse[q]); });
          pairs.hide(p, 0);
          if constexpr (kKeyGradient) {
            for_each([&](int, int m, int j, int n) { ds[m][j][n] *= p[m][j][n]; });
            tile.multiply(ds, stage.q, dk);
          }
          if constexpr (kValueGradient) {
            pairs.drop(p, 1);
            tile.multiply(p, stage.g, dv);
          }
        });
    if constexpr (kKeyGradient)
      tile.store(
          a, k, dk, [&](int, int) { return a.scale; }, a.dk, segment.k_begin, group, first, segment.keys);
    if constexpr (kValueGradient)
      tile.store(
          a, v, dv, [&](int, int) { return a.keep_scale; }, a.dv, segment.k_begin, group, first,
          segment.keys);
  }
};

template <class Kernel>
void launch_keys(const AttentionArgs& a, void* stream) {
  launch<Kernel>({.x = a.segments * ceil_div(a.longest_k, Kernel::kKeys),
                  .y = a.groups,
                  .threads = Kernel::kThreads,
                  .shared = sizeof(typename Kernel::Shared)},
                 stream, a);
}

}  // namespace

void launch_matrix_attention_backward_keys(const AttentionArgs& a, void* stream) {
  with_matrix_heads(a, [&](auto type, auto most) {
    using T = decltype(type);
    constexpr int kMost = decltype(most)::value;
    if constexpr (kMost <= 128) {
      launch_keys<MatrixKeyKernel<T, kMost, true, true>>(a, stream);
    } else {
      launch_keys<MatrixKeyKernel<T, kMost, true, false>>(a, stream);
      launch_keys<MatrixKeyKernel<T, kMost, false, true>>(a, stream);
    }
  });
}

}  // namespace stoa::ops::cuda
