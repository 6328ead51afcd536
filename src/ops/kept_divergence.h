// The divergence of a student from what was kept of its teacher (ops/divergence.h has that of a teacher next
// to it): of every token the k most likely predictions of the teacher, with their log-probabilities, and the
// logarithm of what all others have together.
//
// Both predictions become k + 1 classes, the others being one: t is the teacher's log-probabilities, s the
// student's logits of the k tokens and the logarithm of the sum of exponentials of its other logits. Then
// p = softmax(t / T), q = softmax(s / T), and the divergence is that of ops/divergence.h. So it says nothing
// of how the others divide what they have, of which nothing is known, is 0 for a student that predicts what
// its teacher does, and is that of whole predictions where k is the vocabulary.
//
// The columns may be split among ranks: two steps with an all-gather between them.
#pragma once

#include "ops/divergence.h"

namespace stoa::ops {

// Per token, from this rank's columns: the logits of the kept tokens, minus infinity where another rank has
// them; then of the others the highest logit, minus infinity if there are none, and the sum of exponentials
// relative to it. Tokens that are not trained are left out: their parts are 0.
struct KeptPart {
  static constexpr const char* kName = "kept part";
  TensorView logits;                           // [T, V'], V' >= columns
  TensorView ids;                              // int32 [T, k], ascending in every row
  TensorView loss_mask;                        // fp32 [T]
  std::int64_t first_column = 0, columns = 0;  // of the vocabulary; columns beyond them are padding
  TensorView part;                             // [T, k + 2] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("ids", a.ids, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("part", a.part, Access::kWrite);
  }
};

// The divergence of every trained token, 0 of others, and loss_mask * seed * its derivative by this rank's
// logits, 0 in padding; seed = slot kLossSeed of `state`.
struct KeptMerge {
  static constexpr const char* kName = "kept merge";
  TensorView logits;             // [T, V']
  TensorView ids;                // as in KeptPart
  TensorView log_probabilities;  // fp32 [T, k + 1]: those of the ids, and of all others together
  TensorView parts;              // [ranks, T, k + 2]
  TensorView loss_mask;          // fp32 [T]
  std::int64_t first_column = 0, columns = 0, vocabulary = 0;
  Divergence divergence;
  TensorView state;     // fp64 [StepSlot::kCount]; none without gradient
  TensorView gradient;  // [T, V']: may be the memory of logits; none: only the losses
  TensorView losses;    // [T] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("ids", a.ids, Access::kRead);
    f("log_probabilities", a.log_probabilities, Access::kRead);
    f("parts", a.parts, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("state", a.state, Access::kRead);
    f("gradient", a.gradient, Access::kWrite);
    f("losses", a.losses, Access::kWrite);
  }
};

}  // namespace stoa::ops
