// GEMMs of FP8 operands (base/fp8.h) with one scale per tensor (Micikevicius et al. 2022, section 3.2; the
// recipes "tensorwise" and "delayed" of Transformer Engine). Those of experts' matrices are in ops/moe.h.
//
// A tensor is multiplied by a scale that maps its largest magnitude, amax, to the largest value of the 8-bit
// type, and rounded; the product of two operands is multiplied by the reciprocals of their scales. Both are
// read along their rows: a GEMM that sums over the rows of a matrix reads its transposed copy. Scalars are
// tensors [1] of the accumulation type of the quantized tensor, so that the host need not wait for them.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// amax = the largest magnitude of x; 0 without elements, NaN if x has one.
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
// scale is formed in the accumulation type of x. With an amax that is not this tensor's own, values beyond
// the largest number saturate; an infinity becomes NaN. If amax is NaN or infinite, everything computed from
// y is NaN.
struct Quantize {
  static constexpr const char* kName = "quantize";
  // Columns of `transposed` for this many rows: GEMMs sum over multiples of 16 elements.
  static constexpr std::int64_t kMultiple = 16;
  static std::int64_t padded(std::int64_t rows) { return (rows + kMultiple - 1) / kMultiple * kMultiple; }

  TensorView x;              // [R, C], rows may be strided
  TensorView amax;           // [1]
  TensorView y;              // [R, C] e4m3 or e5m2, or none
  TensorView transposed;     // [C, padded(R)] of the same type, zeros beyond R; or none
  TensorView inverse_scale;  // [1]: 1 / scale
  TensorView seen;           // [1] of amax's type: raised to the largest magnitude of x, NaN if any; or none
  int margin = 0;            // the scale is 2^margin times smaller

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

// The same for G groups of rows, each with its own amax: row i is in group groups[i]. Ids do not decrease;
// the last rows may be unused (-1): neither read nor written. Without `groups` all groups have equally many
// rows. A group without rows has amax 0, and any amax gives it a valid scale.
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

// `op` restricted to rows [begin, begin + count) of a group.
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
// Calls body(of_group()) for all groups. For backends whose `groups` the host can read.
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

// Delayed scaling at the end of a step, for N tensors: what was seen of each is pushed onto its history,
// unless the step is skipped (StepSlot::kFoundInf), nothing was seen, or it is not finite; then amax for the
// next steps is computed from the history. (Transformer Engine keeps the scale in the last two cases, but
// lets zeros and infinities into the history.)
struct AmaxHistoryUpdate {
  static constexpr const char* kName = "amax history update";
  TensorView seen;           // [N] fp32 or fp64; 0 afterwards
  TensorView history;        // [N, L] of the same type, latest first; zeros if unused
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

// out[m, n] = inverse_a inverse_b (sum over k of a[m, k] b[n, k]) + bias[n], or out += the product. Sums are
// in the accumulation type of out.
struct ScaledProduct {
  static constexpr const char* kName = "fp8 product";
  // K and N must be multiples of it, as the matrix units of GPUs require.
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

// db += sum over tokens of dy: LinearBackwardWeight without the weight.
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
