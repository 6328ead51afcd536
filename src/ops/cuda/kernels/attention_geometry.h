// Inside attention kernels: which keys a query sees, its scores, the dropout mask, the rows of a block.
#pragma once

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/random.h"

namespace stoa::ops::cuda {

inline constexpr float kLowestScore = -3.402823466e38f;  // of a query that has seen nothing yet

struct Segment {
  std::int64_t q_begin, k_begin;
  const std::int32_t* blocks;  // of keys, where they are in blocks
  int queries, keys, behind;
  std::uint32_t sample, position;

  STOA_DEVICE Segment(const AttentionArgs& a, std::int64_t s)
      : q_begin(a.q_begin[s]),
        k_begin(a.k_begin[s]),
        blocks(a.k_begin + s * a.block_columns),
        queries(a.q_begin[s + 1] - a.q_begin[s]),
        keys(a.k_count[s]),
        behind(a.behind ? a.behind[s] : 0),
        sample(a.dropout > 0 ? static_cast<std::uint32_t>(a.sample[s]) : 0),
        position(a.dropout > 0 ? static_cast<std::uint32_t>(a.position[s]) : 0) {}

  // The states of the spans of a query's keys, of segment `number`.
  STOA_DEVICE float* states(const AttentionArgs& a, std::int64_t number, int query, int head) const {
    const std::int64_t row = (a.states_by_row ? q_begin : number * a.few) + query;
    return a.states + (row * a.heads + head) * a.spans * (a.d + kSpanSums);
  }

  // The row of a cache in blocks, counted over heads.
  STOA_DEVICE std::int64_t key_row(const AttentionArgs& a, int group, int key) const {
    const int block = a.block_shift >= 0 ? key >> a.block_shift : key / a.block_rows;
    return (std::int64_t{blocks[block]} * a.groups + group) * a.block_rows + (key - block * a.block_rows);
  }

  // The last query is aligned with the last key, or stands so many positions after it.
  STOA_DEVICE int at(int query) const { return keys + behind - queries + query; }

  STOA_DEVICE bool visible(const AttentionArgs& a, int query, int key) const {
    if (query >= queries || key >= keys) return false;
    const int here = at(query);
    return (!a.causal || key <= here) && (a.window == 0 || key > here - a.window);
  }

  struct Range {
    int begin, end;
    STOA_DEVICE bool meets(int first, int count) const { return first < end && first + count > begin; }
  };
  // Keys that any of `count` queries from `first` on may see; queries that may see any of so many keys. Those
  // beyond the segment do not count.
  STOA_DEVICE Range keys_of(const AttentionArgs& a, int first, int count) const {
    Range r{0, first < queries ? keys : 0};
    const int last = (first + count < queries ? first + count : queries) - 1;
    if (a.causal && at(last) + 1 < r.end) r.end = at(last) + 1;
    if (a.window > 0 && at(first) - a.window + 1 > 0) r.begin = static_cast<int>(at(first) - a.window + 1);
    if (r.begin > keys) r.begin = keys;
    return r;
  }
  STOA_DEVICE Range queries_of(const AttentionArgs& a, int first, int count) const {
    const int shift = at(0), last = (first + count < keys ? first + count : keys) - 1;
    Range r{0, first < keys ? queries : 0};
    if (a.causal && first - shift > 0) r.begin = first - shift;
    if (a.window > 0 && last + a.window - shift < r.end) r.end = static_cast<int>(last + a.window - shift);
    return r;
  }
  // Whether all of these queries see all of these keys.
  STOA_DEVICE bool all_visible(const AttentionArgs& a, int query, int some_queries, int key,
                               int some_keys) const {
    // The first query sees the last key and the last query the first: so it is of all between them.
    return visible(a, query, key + some_keys - 1) && visible(a, query + some_queries - 1, key);
  }

  // The score of a pair, from the scaled product on: capped(), then its bias.
  STOA_DEVICE static float capped(const AttentionArgs& a, float x) {
    return a.softcap == 0 ? x : rounded_product(tanhf(x / a.softcap), a.softcap);
  }
  STOA_DEVICE static float scaled(const AttentionArgs& a, float product) {
    return capped(a, rounded_product(product, a.scale));
  }
  // Derivative of capped() where that is `value`.
  STOA_DEVICE static float slope(const AttentionArgs& a, float value) {
    if (a.softcap == 0) return 1;
    const float t = value / a.softcap;
    return 1 - t * t;
  }
  STOA_DEVICE static float bias(const AttentionArgs& a, int head, std::int64_t offset) {
    return a.relative_bias ? a.relative_bias[bias_row(a, offset) * a.bias_stride + head] : 0;
  }
  STOA_DEVICE static std::int64_t bias_row(const AttentionArgs& a, std::int64_t offset) {
    const std::int64_t row = offset - a.first_offset;
    return row < 0 ? 0 : row >= a.offsets ? a.offsets - 1 : row;
  }

  STOA_DEVICE float score(const AttentionArgs& a, int head, int query, int key, float product) const {
    const float value = scaled(a, product);
    return a.relative_bias ? value + bias(a, head, key - at(query)) : value;
  }

  // Words of a query and four keys: those whose positions in the sample are 4 * block and the next.
  STOA_DEVICE Words4 dropout_words(const AttentionArgs& a, int head, int query, std::uint32_t block) const {
    return philox(a.key_lo, a.key_hi,
                  {{position + static_cast<std::uint32_t>(at(query)), block,
                    static_cast<std::uint32_t>(a.first_head + head), sample}});
  }
  STOA_DEVICE static bool is_kept(const AttentionArgs& a, std::uint32_t word) {
    return uniform(word) >= a.dropout;
  }
};

// Block x = segment * tiles + tile. Late tiles, which have most keys, come first.
struct Place {
  std::int64_t segment;
  int first;  // row of the segment
  STOA_DEVICE Place(std::int64_t block, std::int64_t longest, int tile) {
    const std::int64_t tiles = (longest + tile - 1) / tile;
    segment = block / tiles;
    first = static_cast<int>((tiles - 1 - block % tiles) * tile);
  }
};

}  // namespace stoa::ops::cuda
