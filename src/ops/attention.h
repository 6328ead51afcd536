// Scaled dot-product attention over packed sequences, without an s x s tensor (Rabe, Staats 2021; Dao et al.
// 2022).
//
// Tokens of all segments lie back to back. Query head h reads key/value head h / (H / G). Key j is visible to
// query i of the same segment when j <= i (causal) and j > i - window. Where a segment has more keys than
// queries (a KV cache), the last query is aligned with the last key; where its keys end before its queries
// (context parallelism), that many positions after it. Softmax and sums in the accumulation type. The score
// of a pair is c·tanh(scale q·k / c) with a cap c (Gemma team 2024, section 2), scale q·k without, plus a
// bias that depends on the head and on key position - query position: ALiBi (Press et al. 2022) as a
// constant, T5's (Raffel et al. 2020, section 2.1) as a trained table.
#pragma once

#include "base/philox.h"
#include "ops/access.h"

namespace stoa::ops {

// Segment i: query rows [q_begin[i], q_begin[i+1]), key rows [k_begin[i], k_begin[i] + k_count[i]).
struct AttentionSegments {
  TensorView q_begin;  // int32 [n + 1]
  TensorView k_begin;  // int32 [n]
  TensorView k_count;  // int32 [n]
  TensorView sample;   // int64 [n] global sample index, for dropout; none without dropout
  TensorView
      position;  // int32 [n] position in its sample of the segment's first key, for dropout; none without
  TensorView behind;  // int32 [n] how many positions the last key lies before the last query; none: 0
  std::int64_t count = 0;
  std::int64_t longest_q = 0, longest_k = 0;  // upper bounds, known to the host

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("q_begin", a.q_begin, Access::kRead);
    f("k_begin", a.k_begin, Access::kRead);
    f("k_count", a.k_count, Access::kRead);
    f("sample", a.sample, Access::kRead);
    f("position", a.position, Access::kRead);
    f("behind", a.behind, Access::kRead);
  }
};

struct AttentionOptions {
  bool causal = true;
  std::int64_t window = 0;        // keys visible to a query, itself included; 0: all
  double scale = 1.0;             // of q·k
  double softcap = 0;             // c above, of scaled products; 0: none
  std::int64_t first_offset = 0;  // key position - query position of row 0 of relative_bias
  float dropout = 0;              // probability
  PhiloxKey dropout_key;          // of (seed, layer, step)
  std::int64_t first_head = 0;    // global index of head 0, for dropout
  std::int64_t heads = 0;         // global number of query heads, for dropout
};

// Dropout word of (sample, head, query, key), the same for any cut of the work: block of the Philox counter
// {query, key / 4, head, sample}, word key % 4; query and key are positions in the sample.
inline std::uint32_t attention_dropout_word(PhiloxKey key, std::int64_t sample, std::int64_t head,
                                            std::int64_t query, std::int64_t key_position) {
  return philox4x32(key,
                    {static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key_position >> 2),
                     static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(sample)})[key_position & 3];
}

struct AttentionForward {
  static constexpr const char* kName = "attention forward";
  AttentionOptions options;
  AttentionSegments segments;
  TensorView q;  // [Tq, H, d]; rows may be strided (a fused qkv matrix)
  // [Tk, G, d]. Or in inference blocks of a cache in a type of its own (ops/cache_rows.h), [blocks, G, R,
  // cached_width(d)]: key j of segment i is then row j % R of block k_begin[i][j / R], and the output of a
  // query depends on its text alone.
  TensorView k;
  TensorView v;    // as k
  TensorView o;    // [Tq, H, d]
  TensorView lse;  // [Tq, H] accumulation type: log of the sum of exponentials; none in inference
  // [offsets, H] accumulation type, or none; rows may be strided. Offsets beyond the table take its first or
  // its last row.
  TensorView relative_bias = {};

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    AttentionSegments::visit(a.segments, f);
    f("q", a.q, Access::kRead);
    f("k", a.k, Access::kRead);
    f("v", a.v, Access::kRead);
    f("o", a.o, Access::kWrite);
    f("lse", a.lse, Access::kWrite);
    f("relative_bias", a.relative_bias, Access::kRead);
  }
};

struct AttentionBackward {
  static constexpr const char* kName = "attention backward";
  AttentionOptions options;
  AttentionSegments segments;
  TensorView q, k, v, o, lse;
  TensorView dout;        // [Tq, H, d]
  TensorView dq, dk, dv;  // as q, k, v; rows may be strided; must not overlap q, k, v
  TensorView relative_bias = {};
  TensorView drelative_bias = {};  // [offsets, H], added to; none where the bias is not trained

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    AttentionSegments::visit(a.segments, f);
    f("q", a.q, Access::kRead);
    f("k", a.k, Access::kRead);
    f("v", a.v, Access::kRead);
    f("o", a.o, Access::kRead);
    f("lse", a.lse, Access::kRead);
    f("dout", a.dout, Access::kRead);
    f("dq", a.dq, Access::kWrite);
    f("dk", a.dk, Access::kWrite);
    f("dv", a.dv, Access::kWrite);
    f("relative_bias", a.relative_bias, Access::kRead);
    f("drelative_bias", a.drelative_bias, Access::kReadWrite);
  }
};

// Attention to some keys and attention to others become attention to both, of the same queries: the sum of
// both outputs weighted by their shares of the exponentials (Liu et al. 2023, ring attention).
struct AttentionMerge {
  static constexpr const char* kName = "attention merge";
  TensorView part;      // [T, H, d]
  TensorView part_lse;  // [T, H] accumulation type; -inf where a query saw no key
  TensorView o;         // [T, H, d] accumulation type
  TensorView lse;       // [T, H] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("part", a.part, Access::kRead);
    f("part_lse", a.part_lse, Access::kRead);
    f("o", a.o, Access::kReadWrite);
    f("lse", a.lse, Access::kReadWrite);
  }
};

// Rotary position embedding (Su et al. 2021), rotate-half form, in place on the first 2*R of d dimensions of
// each head: (x[i], x[i+R]) -> (x[i]c - x[i+R]s, x[i+R]c + x[i]s). `inverse` turns the other way: that is the
// backward pass.
struct Rotary {
  static constexpr const char* kName = "rotary";
  TensorView x;          // [T, heads, d]; rows may be strided
  TensorView positions;  // int32 [T]
  TensorView table;      // [positions, 2, R] cos, sin in the accumulation type
  bool inverse = false;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kReadWrite);
    f("positions", a.positions, Access::kRead);
    f("table", a.table, Access::kRead);
  }
};

}  // namespace stoa::ops
