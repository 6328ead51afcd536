// What of a tile of scores does not come from q k^T: who sees whom, cap, bias, dropout
// (attention_geometry.h).
#pragma once

#include "ops/cuda/kernels/attention_cached_tiles.h"
#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/attention_tiles.h"

namespace stoa::ops::cuda {

// What the pairs of a tile need, once for the block: a tile has fewer offsets and fewer blocks of dropout
// words than pairs.
template <int kQueries, int kKeys>
struct PairTables {
  static constexpr int kOffsets = kQueries + kKeys - 1;
  static constexpr int kBlocks = kKeys / 4 + 1;  // positions of keys begin anywhere in a block
  float bias[kOffsets + 1];
  std::uint8_t kept[kQueries * kBlocks];  // bit i: the pair with key i of the block is kept

  // Element of bias of a pair, numbered in the tile.
  STOA_DEVICE static int offset(int query, int key) { return key - query + kQueries - 1; }

  // By all threads: for queries from `query` on and keys from `key` on.
  STOA_DEVICE void fill(const Thread& t, const AttentionArgs& a, const Segment& segment, int head, int query,
                        int key) {
    if (a.relative_bias) {
      const int first = key - segment.at(query + kQueries - 1);
      for (int i = t.index(); i < kOffsets; i += kTileThreads) bias[i] = Segment::bias(a, head, first + i);
    }
    if (a.dropout > 0) {
      const std::uint32_t block = (segment.position + static_cast<std::uint32_t>(key)) / 4;
      for (int i = t.index(); i < kQueries * kBlocks; i += kTileThreads) {
        const Words4 words = segment.dropout_words(a, head, query + i / kBlocks,
                                                   block + static_cast<std::uint32_t>(i % kBlocks));
        unsigned bits = 0;
        STOA_UNROLL
        for (int w = 0; w < 4; ++w) bits |= unsigned{Segment::is_kept(a, words.w[w])} << w;
        kept[i] = static_cast<std::uint8_t>(bits);
      }
    }
  }
};

// Keys and values that a block works on.
template <class T, int kMost, int kQueries, int kKeys>
struct KeyStage {
  using Tile = HeadTile<T, kMost>;
  alignas(16) T k[kKeys * Tile::kPitch], v[kKeys * Tile::kPitch];
  PairTables<kQueries, kKeys> tables;
};

// Calls body(key, stage) for the keys, kKeys from `key` on, that the block's queries, from `first` on, see;
// stages of shared memory are filled in turn. kBlocks: they are in blocks of a cache.
template <bool kBlocks, class T, int kMost, int kQueries, int kKeys, int kStages, class Body>
STOA_DEVICE void walk_keys(const Thread& t, const HeadTile<T, kMost>& tile, const AttentionArgs& a,
                           const Segment& segment, int head, int first,
                           KeyStage<T, kMost, kQueries, kKeys> (&stages)[kStages], const Body& body) {
  const Segment::Range range = segment.keys_of(a, first, kQueries);
  const int begin = range.begin / kKeys * kKeys, group = head / (a.heads / a.groups);
  walk<kStages>(
      t, (range.end - begin + kKeys - 1) / kKeys,
      [&](int i, int which) {
        auto& stage = stages[which];
        const int key = begin + i * kKeys;
        load_keys<kBlocks, kKeys, 2>(tile, a, stage.k, a.k, segment, group, key);
        load_keys<kBlocks, kKeys, 2>(tile, a, stage.v, a.v, segment, group, key);
        stage.tables.fill(t, a, segment, head, first, key);
      },
      [&](int i, int which) { body(begin + i * kKeys, stages[which]); });
}

// The pairs of which a warp holds sums: rows of queries and columns of keys, or the other way where kByKey.
template <int kQueries, int kKeys, bool kByKey>
struct Pairs {
  using Tables = PairTables<kQueries, kKeys>;
  const Thread& t;
  const AttentionArgs& a;
  const Segment& segment;
  const Tables& tables;
  const int query, key;  // of the segment, where the tile begins
  const int row;         // of the tile, where the warp's rows begin

  // Calls body(query, key, m, j, n) for the sums of this lane; query and key are numbered in the tile.
  template <int kM, int kN, class Body>
  STOA_DEVICE void for_each(const Body& body) const {
    STOA_UNROLL
    for (int m = 0; m < kM; ++m) {
      STOA_UNROLL
      for (int j = 0; j < kN; ++j) {
        STOA_UNROLL
        for (int n = 0; n < 4; ++n) {
          const int r = row + 16 * m + sum_row(t, n), c = 8 * j + sum_column(t, n);
          body(kByKey ? c : r, kByKey ? r : c, m, j, n);
        }
      }
    }
  }

  // Products become scores without bias.
  template <int kM, int kN>
  STOA_DEVICE void scale(Sums<kM, kN>& s) const {
    for_each<kM, kN>(
        [&](int, int, int m, int j, int n) { s[m][j][n] = rounded_product(s[m][j][n], a.scale); });
    if (a.softcap != 0)
      for_each<kM, kN>([&](int, int, int m, int j, int n) { s[m][j][n] = Segment::capped(a, s[m][j][n]); });
  }
  // x times the derivative of scores without bias by scaled products.
  template <int kM, int kN>
  STOA_DEVICE void slope(const Sums<kM, kN>& scores, Sums<kM, kN>& x) const {
    if (a.softcap != 0)
      for_each<kM, kN>(
          [&](int, int, int m, int j, int n) { x[m][j][n] *= Segment::slope(a, scores[m][j][n]); });
  }
  template <int kM, int kN>
  STOA_DEVICE void add_bias(Sums<kM, kN>& s) const {
    if (a.relative_bias)
      for_each<kM, kN>(
          [&](int q, int k, int m, int j, int n) { s[m][j][n] += tables.bias[Tables::offset(q, k)]; });
  }
  // Pairs that do not see each other get `value`.
  template <int kM, int kN>
  STOA_DEVICE void hide(Sums<kM, kN>& s, float value) const {
    constexpr int kRows = 16 * kM;
    const bool all = kByKey ? segment.all_visible(a, query, kQueries, key + row, kRows)
                            : segment.all_visible(a, query + row, kRows, key, kKeys);
    if (!all)
      for_each<kM, kN>([&](int q, int k, int m, int j, int n) {
        if (!segment.visible(a, query + q, key + k)) s[m][j][n] = value;
      });
  }
  // Dropped pairs become 0, others are multiplied by `factor`.
  template <int kM, int kN>
  STOA_DEVICE void drop(Sums<kM, kN>& x, float factor) const {
    if (a.dropout == 0) return;
    const int shift = static_cast<int>((segment.position + static_cast<std::uint32_t>(key)) % 4);
    for_each<kM, kN>([&](int q, int k, int m, int j, int n) {
      const int at = k + shift;
      x[m][j][n] = (tables.kept[q * Tables::kBlocks + at / 4] >> (at % 4) & 1) ? x[m][j][n] * factor : 0.0f;
    });
  }
};

}  // namespace stoa::ops::cuda
