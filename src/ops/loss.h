// Cross entropy over the vocabulary. The gradient takes the place of the logits, so no second [T, V] tensor
// exists, and the caller works through tokens in pieces, so no [all tokens, V] tensor exists.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

struct CrossEntropy {
  static constexpr const char* kName = "cross entropy";
  TensorView logits;            // [T, V'] with V' >= vocabulary; becomes the gradient when `gradient`
  TensorView labels;            // int32 [T]
  TensorView loss_mask;         // fp32 [T]: weight of each token's loss, 0 or 1
  std::int64_t vocabulary = 0;  // columns beyond it are padding: out of the sum, gradient 0
  bool gradient = true;  // logits <- loss_mask * seed * (softmax - onehot), seed = slot kLossSeed of `state`
  TensorView state;      // fp64 [StepSlot::kCount]; none when no gradient is wanted
  TensorView losses;     // [T] accumulation type: -log softmax[label], not masked

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, a.gradient ? Access::kReadWrite : Access::kRead);
    f("labels", a.labels, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("state", a.state, Access::kRead);
    f("losses", a.losses, Access::kWrite);
  }
};

// state[kLossSum] += sum of losses[t] * loss_mask[t], added in token order in fp64.
struct SumLosses {
  static constexpr const char* kName = "sum losses";
  TensorView losses;     // [T]
  TensorView loss_mask;  // fp32 [T]
  TensorView state;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("losses", a.losses, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("state", a.state, Access::kReadWrite);
  }
};

}  // namespace stoa::ops
