// Attention problems for tests: packed segments of many forms, heads in groups, windows, caches, dropout.
// Test-only.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "ops/op_test_util.h"

namespace stoa::ops::testing {

struct SegmentCase {
  std::int32_t queries, keys;
};

struct AttentionCase {
  const char* name;
  std::int64_t heads, groups, d;
  std::vector<SegmentCase> segments;
  bool causal = true;
  std::int64_t window = 0;
  float dropout = 0;
  std::int64_t gap = 0;      // between rows of q, k, v, o
  std::int32_t key_gap = 0;  // unused rows of k and v between segments (a cache)
  double softcap = 0;
  std::int64_t first_offset = 0, offsets = 0;  // of a relative bias; 0 offsets: none
  std::int32_t behind = -1;                    // of segment i: i more than this; -1: no tensor
};

inline std::vector<AttentionCase> attention_cases() {
  return {
      {"one token", 1, 1, 4, {{1, 1}}},
      {"square", 2, 2, 16, {{33, 33}}},
      {"long", 2, 2, 64, {{200, 200}}},
      {"head 128", 1, 1, 128, {{70, 70}}},
      {"head 80", 2, 1, 80, {{65, 65}}},
      {"odd head", 3, 1, 7, {{19, 19}}},
      {"grouped", 6, 2, 32, {{40, 40}}},
      {"packed", 2, 1, 24, {{5, 5}, {1, 1}, {64, 64}, {17, 17}}},
      {"window", 2, 2, 16, {{100, 100}}, true, 9},
      {"window of one", 2, 2, 8, {{20, 20}}, true, 1},
      {"full", 2, 2, 16, {{23, 23}, {40, 40}}, false},
      {"strided", 4, 2, 16, {{37, 37}}, true, 0, 0, 48},
      {"cache", 4, 2, 16, {{1, 130}, {3, 50}, {1, 1}}, true, 0, 0, 0, 5},
      {"cache with window", 2, 2, 16, {{4, 90}, {1, 70}}, true, 16, 0, 0, 3},
      {"dropout", 2, 1, 16, {{30, 30}, {21, 21}}, true, 0, 0.3F},
      {"dropout with cache and window", 2, 2, 8, {{6, 40}}, true, 12, 0.5F, 8},
      {"cap", 2, 2, 16, {{70, 70}, {9, 9}}, true, 0, 0, 0, 0, 0.7},
      {"bias of every offset", 2, 2, 16, {{80, 80}}, false, 0, 0, 0, 0, 0, -79, 159},
      {"short bias", 6, 2, 16, {{70, 70}, {17, 17}}, false, 0, 0, 0, 0, 0, -5, 11},
      {"bias of the past", 2, 2, 64, {{150, 150}, {3, 3}}, true, 0, 0, 0, 0, 0, -20, 21},
      {"bias apart", 2, 2, 16, {{100, 100}}, true, 0, 0, 0, 0, 0, -60, 10},
      {"bias and cap with dropout", 4, 2, 20, {{66, 66}}, false, 30, 0.3F, 8, 0, 2.0, -40, 60},
      {"cache with bias and cap",
       4,
       2,
       16,
       {{1, 130}, {3, 50}, {1, 1}, {2, 9}},
       true,
       0,
       0,
       0,
       5,
       1.5,
       -30,
       31},
      {"keys of earlier ranks", 4, 2, 16, {{70, 40}, {5, 0}, {3, 90}}, true, 0, 0, 0, 0, 0, 0, 0, 0},
      {"keys of earlier ranks, window", 2, 2, 16, {{70, 70}, {66, 80}}, true, 90, 0, 0, 0, 0, 0, 0, 20},
      {"keys of earlier ranks, dropout", 2, 1, 8, {{20, 30}, {9, 9}}, true, 25, 0.3F, 0, 0, 0, 0, 0, 11},
      {"head 64, both ways", 2, 1, 64, {{140, 150}, {1, 1}}, false, 0, 0.2F, 8, 3, 0, -30, 61},
      {"head 80, all at once", 4, 2, 80, {{70, 90}, {33, 20}}, true, 40, 0.3F, 8, 3, 2.0, -40, 30, 5},
      {"head 128, all at once", 2, 1, 128, {{130, 140}, {9, 9}}, true, 100, 0.3F, 0, 5, 3.0, -70, 60, 9},
      {"head 192, all at once", 2, 2, 192, {{40, 70}, {17, 17}}, true, 25, 0.2F, 24, 0, 3.0, -20, 41, 1},
      {"head 256, all at once", 2, 1, 256, {{70, 40}, {5, 90}}, false, 60, 0.2F, 0, 2, 3.0, -5, 11},
      {"head 250", 2, 1, 250, {{20, 37}}, true, 0, 0.4F, 1, 0, 0, -9, 10},
      {"keys of earlier ranks, bias and cap", 2, 2, 16, {{70, 66}}, true, 0, 0, 0, 0, 2.0, -90, 60, 40},
  };
}

inline AttentionForward make_attention(Tensors& t, const AttentionCase& c, DType type, double scale = 1) {
  std::vector<std::int32_t> q_begin{0}, k_begin, k_count, position, behind;
  std::vector<std::int64_t> sample;
  std::int32_t rows = 0;
  AttentionForward op;
  for (const auto& s : c.segments) {
    q_begin.push_back(q_begin.back() + s.queries);
    k_begin.push_back(rows);
    k_count.push_back(s.keys);
    rows += s.keys + c.key_gap;
    sample.push_back(1000 + static_cast<std::int64_t>(sample.size()));
    position.push_back(static_cast<std::int32_t>(13 * position.size()));
    behind.push_back(c.behind + static_cast<std::int32_t>(behind.size()));
    op.segments.longest_q = std::max<std::int64_t>(op.segments.longest_q, s.queries);
    op.segments.longest_k = std::max<std::int64_t>(op.segments.longest_k, s.keys);
  }
  op.segments.count = static_cast<std::int64_t>(c.segments.size());
  op.segments.q_begin = t.int32(q_begin);
  op.segments.k_begin = t.int32(k_begin);
  op.segments.k_count = t.int32(k_count);
  if (c.behind >= 0) op.segments.behind = t.int32(behind);
  op.options.causal = c.causal;
  op.options.window = c.window;
  op.options.scale = scale / std::sqrt(static_cast<double>(c.d));
  op.options.dropout = c.dropout;
  op.options.softcap = c.softcap;
  op.options.first_offset = c.first_offset;
  if (c.dropout > 0) {
    op.segments.sample = t.int64(sample);
    op.segments.position = t.int32(position);
    op.options.dropout_key = philox_key(3, RandomPurpose::kAttentionDropout, "layer");
    op.options.first_head = 2;
    op.options.heads = c.heads + 4;
  }
  const std::int64_t queries = q_begin.back();
  op.q = t.random(type, {queries, c.heads, c.d}, 1, c.gap);
  op.k = t.random(type, {rows, c.groups, c.d}, 1, c.gap);
  op.v = t.random(type, {rows, c.groups, c.d}, 1, c.gap);
  op.o = t.empty(type, {queries, c.heads, c.d}, c.gap);
  op.lse = t.empty(accumulation_type(type), {queries, c.heads});
  if (c.offsets) op.relative_bias = t.random(accumulation_type(type), {c.offsets, c.heads});
  return op;
}

// The same problem with keys in blocks anywhere.
inline AttentionForward with_blocks(Tensors& t, const AttentionForward& op, std::int64_t size) {
  const auto* k_begin = op.segments.k_begin.as<std::int32_t>();
  const auto* k_count = op.segments.k_count.as<std::int32_t>();
  const std::int64_t most = (op.segments.longest_k + size - 1) / size + 1, count = op.segments.count;
  const std::int64_t total = most * count;
  std::vector<std::int32_t> blocks, order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  AttentionForward out = op;
  const std::int64_t heads = op.k.shape[1];
  const Shape shape = CacheShape(total, heads, size, op.k.shape[2]).shape();
  out.k = t.random(op.k.dtype, shape), out.v = t.random(op.k.dtype, shape);
  const std::size_t bytes = static_cast<std::size_t>(op.k.shape[2]) * size_of(op.k.dtype);
  for (std::int64_t s = 0, next = 0; s < count; ++s)
    for (std::int64_t b = 0; b < most; ++b) {
      const std::int32_t block = order[static_cast<std::size_t>(next++)];
      blocks.push_back(block);
      for (std::int64_t i = 0; i < size && b * size + i < k_count[s]; ++i)
        for (const auto& [from, to] : {std::pair{op.k, out.k}, std::pair{op.v, out.v}})
          for (std::int64_t h = 0; h < heads; ++h)
            std::memcpy(static_cast<char*>(to.data) +
                            static_cast<std::size_t>((block * heads + h) * size + i) * bytes,
                        static_cast<const char*>(from.slice(k_begin[s] + b * size + i, 1).data) +
                            static_cast<std::size_t>(h) * bytes,
                        bytes);
    }
  out.segments.k_begin = t.int32(blocks).reshape({count, most});
  return out;
}

// The same rows of blocks in a cache of a type.
inline TensorView kept_blocks(Tensors& t, const TensorView& blocks, DType cache) {
  const CacheShape from(blocks);
  const std::int64_t rows = from.blocks * from.heads * from.rows, width = cached_width(cache, from.width);
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const TensorView out = t.empty(cache, CacheShape(from.blocks, from.heads, from.rows, width).shape());
  run_reference(  // as rows of one head
      ScatterRows{blocks.reshape({rows, 1, from.width}), t.int32(all), out.reshape({1, 1, rows, width})});
  return out;
}

// The backward pass of `forward`, which has run.
inline AttentionBackward make_backward(Tensors& t, const AttentionForward& forward) {
  const auto gap = [](const TensorView& v) { return v.stride0 - v.shape.inner(); };
  AttentionBackward op;
  op.options = forward.options;
  op.segments = forward.segments;
  op.q = forward.q, op.k = forward.k, op.v = forward.v, op.o = forward.o, op.lse = forward.lse;
  op.dout = t.random(op.q.dtype, op.q.shape, 1, gap(op.q));
  op.dq = t.empty(op.q.dtype, op.q.shape, gap(op.q));
  op.dk = t.empty(op.q.dtype, op.k.shape, gap(op.k));
  op.dv = t.empty(op.q.dtype, op.v.shape, gap(op.v));
  if (forward.relative_bias) {
    op.relative_bias = forward.relative_bias;
    op.drelative_bias = t.random(op.relative_bias.dtype, op.relative_bias.shape);
  }
  return op;
}

}  // namespace stoa::ops::testing
