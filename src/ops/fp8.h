// Products of 8-bit floats (base/fp8.h) with one scale per tensor (Micikevicius et al. 2022, section 3.2; the
// recipes "tensorwise" and "delayed" of Transformer Engine). Products of experts' matrices are in ops/moe.h.
//
// A tensor is multiplied by a scale that brings its largest magnitude, amax, to the largest number of the
// 8-bit type, and is rounded; the reciprocals of the scales of two operands multiply their product. Both are
// read along their rows: a product that sums over the rows of a matrix takes the transposed copy. Scalars
// are tensors [1] of the accumulation type of what is quantized: no step waits for them to reach the host.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// amax = the largest magnitude of x, 0 without elements; NaN where x has one.
struct AbsoluteMax {
  static constexpr const char* kName = "absolute maximum";
  TensorView x;     // [R, C], rows may be strided
  TensorView amax;  // [1]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("amax", a.amax, Access::kWrite);
  }
};

// y = x scale, rounded to nearest even, with fp8_scale() of amax (ops/fp8_scale.h). The product with the
// scale is formed in the accumulation type of x. What an amax that is not this tensor's own leaves above the
// largest number saturates; an infinity becomes NaN. An amax that is no number makes all that is computed
// from y NaN.
struct Quantize {
  static constexpr const char* kName = "quantize";
  // Columns of `transposed` for that many rows: products take sums over multiples of 16 elements.
  static constexpr std::int64_t kMultiple = 16;
  static std::int64_t padded(std::int64_t rows) { return (rows + kMultiple - 1) / kMultiple * kMultiple; }

  TensorView x;              // [R, C], rows may be strided
  TensorView amax;           // [1]
  TensorView y;              // [R, C] e4m3 or e5m2, or none
  TensorView transposed;     // [C, padded(R)] of the same type, zeros beyond R; or none
  TensorView inverse_scale;  // [1]: 1 / scale
  TensorView seen;  // [1] of amax's type: raised to the largest magnitude of x, NaN above all; or none
  int margin = 0;   // the scale is 2^margin times smaller

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("amax", a.amax, Access::kRead);
    f("y", a.y, Access::kWrite);
    f("transposed", a.transposed, Access::kWrite);
    f("inverse_scale", a.inverse_scale, Access::kWrite);
    f("seen", a.seen, Access::kReadWrite);
  }
};

// The same of G groups of rows, each for itself: row i is of group groups[i]. Ids do not decrease; the last
// rows may be nobody's (-1), which are neither read nor written. Without `groups` all groups are equally
// large. A group without rows has the maximum 0, and any amax of it a scale.
struct GroupedAbsoluteMax {
  static constexpr const char* kName = "grouped absolute maximum";
  TensorView x;       // [R, C]
  TensorView groups;  // int32 [T, k], R = T k, or none
  TensorView amax;    // [G]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("groups", a.groups, Access::kRead);
    f("amax", a.amax, Access::kWrite);
  }
};

struct GroupedQuantize {
  static constexpr const char* kName = "grouped quantize";
  TensorView x;              // [R, C]
  TensorView groups;         // int32 [T, k], R = T k, or none
  TensorView amax;           // [G], may be strided
  TensorView y;              // [R, C] e4m3 or e5m2
  TensorView inverse_scale;  // [G]
  TensorView seen;           // [G], may be strided, or none
  int margin = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("groups", a.groups, Access::kRead);
    f("amax", a.amax, Access::kRead);
    f("y", a.y, Access::kWrite);
    f("inverse_scale", a.inverse_scale, Access::kWrite);
    f("seen", a.seen, Access::kReadWrite);
  }
};

// What a group's rows [begin, begin + count) are to `op`.
inline AbsoluteMax of_group(const GroupedAbsoluteMax& op, std::int64_t group, std::int64_t begin,
                            std::int64_t count) {
  return {op.x.slice(begin, count), op.amax.slice(group, 1)};
}
inline Quantize of_group(const GroupedQuantize& op, std::int64_t group, std::int64_t begin,
                         std::int64_t count) {
  return {.x = op.x.slice(begin, count),
          .amax = op.amax.slice(group, 1),
          .y = op.y.slice(begin, count),
          .transposed = {},
          .inverse_scale = op.inverse_scale.slice(group, 1),
          .seen = op.seen ? op.seen.slice(group, 1) : TensorView(),
          .margin = op.margin};
}
// Calls body(of_group()) for all groups. For backends whose host can read `groups`.
template <class Op, class Body>
void for_each_group(const Op& op, const Body& body) {
  const std::int64_t rows = op.x.shape[0], groups = op.amax.shape[0];
  const auto* ids = op.groups ? op.groups.template as<std::int32_t>() : nullptr;
  for (std::int64_t group = 0, begin = 0; group < groups; ++group) {
    std::int64_t end = ids ? begin : rows / groups * (group + 1);
    while (ids && end < rows && ids[end] == group) ++end;
    body(of_group(op, group, begin, end - begin));
    begin = end;
  }
}

// Delayed scaling at the end of a step, of N tensors: what was seen of each joins its history, unless the
// step is skipped (StepSlot::kFoundInf), nothing was seen, or what was seen is not finite; amax is made of
// the history, for the steps to come. (Transformer Engine keeps a scale where one of the last two holds, and
// lets zeros and infinities into the history.)
struct AmaxHistoryUpdate {
  static constexpr const char* kName = "amax history update";
  TensorView seen;           // [N] fp32 or fp64; 0 afterwards
  TensorView history;        // [N, L] of the same type, latest first; zeros where nothing was
  TensorView amax;           // [N]: the largest of the history, 0 of an empty one
  TensorView state;          // fp64 [StepSlot::kCount]
  bool most_recent = false;  // amax is the latest of the history instead

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("seen", a.seen, Access::kReadWrite);
    f("history", a.history, Access::kReadWrite);
    f("amax", a.amax, Access::kWrite);
    f("state", a.state, Access::kRead);
  }
};

// out[m, n] = inverse_a inverse_b (sum over k of a[m, k] b[n, k]) + bias[n], or out += that. Sums are kept in
// the accumulation type of out.
struct ScaledProduct {
  static constexpr const char* kName = "fp8 product";
  // K and N are multiples of it: what the matrix units of GPUs read at once.
  static constexpr std::int64_t kMultiple = Quantize::kMultiple;

  TensorView a, b;                  // [M, K], [N, K]: e4m3, or one of them e5m2
  TensorView inverse_a, inverse_b;  // [1] accumulation type of out
  TensorView bias;                  // [N] accumulation type of out, or none
  TensorView out;                   // [M, N], rows may be strided
  bool accumulate = false;          // out += instead of out =; without bias
  // GPUs may keep sums in fewer bits than fp32: good enough for a forward pass, not for gradients.
  bool fast = false;

  template <class Self, class F>
  static void visit(Self& op, F&& f) {
    f("a", op.a, Access::kRead);
    f("b", op.b, Access::kRead);
    f("inverse_a", op.inverse_a, Access::kRead);
    f("inverse_b", op.inverse_b, Access::kRead);
    f("bias", op.bias, Access::kRead);
    f("out", op.out, op.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// db += sum over tokens of dy: the bias' part of LinearBackwardWeight, alone.
struct BiasBackward {
  static constexpr const char* kName = "bias backward";
  TensorView dy;           // [T, N]
  TensorView dbias;        // [N] accumulation type
  bool accumulate = true;  // false: overwrite

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("dbias", a.dbias, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

}  // namespace stoa::ops
