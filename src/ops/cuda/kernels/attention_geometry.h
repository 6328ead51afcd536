// Which keys a query sees, and the dropout mask, inside attention kernels.
#pragma once

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/random.h"

namespace stoa::ops::cuda {

struct Segment {
  std::int64_t q_begin, k_begin;
  int queries, keys, behind;
  std::uint32_t sample, position;

  STOA_DEVICE Segment(const AttentionArgs& a, std::int64_t s)
      : q_begin(a.q_begin[s]),
        k_begin(a.k_begin[s]),
        queries(a.q_begin[s + 1] - a.q_begin[s]),
        keys(a.k_count[s]),
        behind(a.behind ? a.behind[s] : 0),
        sample(a.dropout > 0 ? static_cast<std::uint32_t>(a.sample[s]) : 0),
        position(a.dropout > 0 ? static_cast<std::uint32_t>(a.position[s]) : 0) {}

  // The last query is aligned with the last key, or stands so many positions after it.
  STOA_DEVICE int at(int query) const { return keys + behind - queries + query; }

  STOA_DEVICE bool visible(const AttentionArgs& a, int query, int key) const {
    if (query >= queries || key >= keys) return false;
    const int here = at(query);
    return (!a.causal || key <= here) && (a.window == 0 || key > here - a.window);
  }

  struct Range {
    int begin, end;
  };
  // Keys that any of the queries [first, last] may see; queries that any of the keys [first, last] may see.
  STOA_DEVICE Range keys_of(const AttentionArgs& a, int first, int last) const {
    Range r{0, keys};
    if (a.causal && at(last) + 1 < r.end) r.end = at(last) + 1;
    if (a.window > 0 && at(first) - a.window + 1 > 0) r.begin = static_cast<int>(at(first) - a.window + 1);
    if (r.begin > keys) r.begin = keys;
    return r;
  }
  STOA_DEVICE Range queries_of(const AttentionArgs& a, int first, int last) const {
    const int shift = at(0);
    Range r{0, queries};
    if (a.causal && first - shift > 0) r.begin = first - shift;
    if (a.window > 0 && last + a.window - shift < r.end) r.end = static_cast<int>(last + a.window - shift);
    return r;
  }

  struct Score {
    float value;
    float slope;  // derivative by the scaled product
  };
  STOA_DEVICE Score score(const AttentionArgs& a, int head, int query, int key, float product) const {
    Score out{product * a.scale, 1};
    if (a.softcap != 0) {
      const float t = tanhf(out.value / a.softcap);
      out.value = t * a.softcap, out.slope = 1 - t * t;
    }
    if (a.relative_bias) out.value += a.relative_bias[bias_row(a, key - at(query)) * a.bias_stride + head];
    return out;
  }
  STOA_DEVICE static std::int64_t bias_row(const AttentionArgs& a, std::int64_t offset) {
    const std::int64_t row = offset - a.first_offset;
    return row < 0 ? 0 : row >= a.offsets ? a.offsets - 1 : row;
  }

  // Factor of the probability of (query, key): 0 or 1/(1-p).
  STOA_DEVICE float keep(const AttentionArgs& a, int head, int query, int key) const {
    if (a.dropout == 0) return 1;
    const std::uint32_t k = position + static_cast<std::uint32_t>(key);
    const Words4 words = philox(a.key_lo, a.key_hi,
                                {{position + static_cast<std::uint32_t>(at(query)), k >> 2,
                                  static_cast<std::uint32_t>(a.first_head + head), sample}});
    const std::uint32_t which = k & 3u;
    const std::uint32_t word = which == 0   ? words.w[0]
                               : which == 1 ? words.w[1]
                               : which == 2 ? words.w[2]
                                            : words.w[3];
    return uniform(word) < a.dropout ? 0.0f : a.keep_scale;
  }
};

}  // namespace stoa::ops::cuda
