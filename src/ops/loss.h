// Cross entropy over the vocabulary. The gradient overwrites the logits, so there is no second [T, V] tensor,
// and the caller processes tokens in pieces, so there is no [all tokens, V] tensor.
//
// loss[t] = lse - (1 - smoothing) x[label] - smoothing / V * sum of x + z_weight lse^2, lse = log sum exp x:
// label smoothing as PyTorch defines it, and the z-loss of PaLM (Chowdhery et al. 2022, section 5).
#pragma once

#include "ops/access.h"

namespace stoa::ops {

struct CrossEntropy {
  static constexpr const char* kName = "cross entropy";
  TensorView logits;            // [T, V'] with V' >= vocabulary; becomes the gradient when `gradient`
  TensorView labels;            // int32 [T]
  TensorView loss_mask;         // fp32 [T]: weight of each token's loss, 0 or 1
  std::int64_t vocabulary = 0;  // columns beyond it are padding: not in the sum, gradient 0
  bool gradient = true;  // logits <- loss_mask * seed * (softmax - onehot), seed = slot kLossSeed of `state`
  TensorView state;      // fp64 [StepSlot::kCount]; none without gradient
  TensorView losses;     // [T] accumulation type, not masked
  double smoothing = 0, z_weight = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, a.gradient ? Access::kReadWrite : Access::kRead);
    f("labels", a.labels, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("state", a.state, Access::kRead);
    f("losses", a.losses, Access::kWrite);
  }
};

// The same over a vocabulary whose columns are split among ranks, in two steps with one all-gather between.
// Each rank computes per token, from its columns: the highest logit, the sum of exponentials relative to it,
// the logit of the label (0 if it is on another rank) and the sum of logits.
struct CrossEntropyPart {
  static constexpr const char* kName = "cross entropy part";
  TensorView logits;                           // [T, V'], V' >= columns
  TensorView labels;                           // int32 [T]
  std::int64_t first_column = 0, columns = 0;  // of the vocabulary; columns beyond them are padding
  TensorView part;                             // [T, 4] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("labels", a.labels, Access::kRead);
    f("part", a.part, Access::kWrite);
  }
};

// Loss of every token and the gradient of this rank's logits from the parts of all ranks, combined in rank
// order.
struct CrossEntropyMerge {
  static constexpr const char* kName = "cross entropy merge";
  TensorView logits;     // [T, V'] becomes the gradient; none without gradient
  TensorView labels;     // int32 [T]
  TensorView loss_mask;  // fp32 [T]
  TensorView parts;      // [ranks, T, 4] accumulation type
  std::int64_t first_column = 0, columns = 0, vocabulary = 0;
  TensorView state;   // fp64 [StepSlot::kCount]; none without gradient
  TensorView losses;  // [T] accumulation type, not masked
  double smoothing = 0, z_weight = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kReadWrite);
    f("labels", a.labels, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("parts", a.parts, Access::kRead);
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
