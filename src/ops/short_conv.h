// Causal convolution of every column with its own K weights, followed by SiLU: the short convolution in front
// of linear attention (Mamba, 2312.00752, section 3.4; Gated DeltaNet, 2412.06464, section 3.4).
//   y[t, c] = silu(sum over j of weight[c, j] x[t - K + 1 + j, c]), with zeros before the first token of a
//   text.
#pragma once

#include "ops/sequences.h"

namespace stoa::ops {

struct ShortConvForward {
  static constexpr const char* kName = "short convolution forward";
  Sequences texts;
  TensorView x;       // [T, C]; rows may be strided
  TensorView weight;  // [C, K] accumulation type
  // The K - 1 inputs before a text's first token, the latest last: [n, K - 1, C] accumulation type; replaced
  // by the last K - 1 inputs. None: zeros.
  TensorView state;
  TensorView y;  // [T, C]; rows may be strided

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    Sequences::visit(a.texts, f);
    f("x", a.x, Access::kRead);
    f("weight", a.weight, Access::kRead);
    f("state", a.state, Access::kReadWrite);
    f("y", a.y, Access::kWrite);
  }
};

// Backward of a forward without `state`.
struct ShortConvBackward {
  static constexpr const char* kName = "short convolution backward";
  Sequences texts;
  TensorView x, weight, dy;
  TensorView dx;       // [T, C]; rows may be strided
  TensorView dweight;  // [C, K] accumulation type
  bool accumulate = true;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    Sequences::visit(a.texts, f);
    f("x", a.x, Access::kRead);
    f("weight", a.weight, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dx", a.dx, Access::kWrite);
    f("dweight", a.dweight, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

}  // namespace stoa::ops
