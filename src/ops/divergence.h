// How far the predictions of a student, q = softmax(s / T), are from those of its teacher, p = softmax(t /
// T), for distillation (Hinton et al. 2015): per token, times T squared, so that the weight of its gradient
// does not depend on the temperature T.
//   forward: sum of p log(p / q); reverse: sum of q log(q / p);
//   mixture: b sum of p log(p / m) + (1 - b) sum of q log(q / m), m = b p + (1 - b) q, the generalised
//   Jensen-Shannon divergence of Agarwal et al. 2023 (GKD).
// The columns of both may be split among ranks: three steps with an all-gather after each of the first two.
// The sums over columns need the logarithms of the whole vocabulary's sums of exponentials, which the first
// step prepares.
#pragma once

#include <cstdint>

#include "ops/access.h"

namespace stoa::ops {

enum class DivergenceKind : std::uint8_t { kForward, kReverse, kMixture };

struct Divergence {
  DivergenceKind kind = DivergenceKind::kForward;
  double temperature = 1;
  double mixture = 0.5;  // b
};

// Per token, from this rank's columns: the highest logit over the temperature and the sum of exponentials
// relative to it, of the student, then of the teacher.
struct DivergencePart {
  static constexpr const char* kName = "divergence part";
  TensorView logits, teacher;  // [T, V'] one type, V' >= columns
  std::int64_t columns = 0;    // those beyond them are padding
  double temperature = 1;
  TensorView part;  // [T, 4] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("teacher", a.teacher, Access::kRead);
    f("part", a.part, Access::kWrite);
  }
};

// This rank's columns' share of: sum of p log(p / q or m), sum of q log(q / p or m). What the kind does not
// need is 0.
struct DivergenceSums {
  static constexpr const char* kName = "divergence sums";
  TensorView logits, teacher;  // [T, V']
  TensorView parts;            // [ranks, T, 4] accumulation type
  std::int64_t columns = 0;
  Divergence divergence;
  TensorView sums;  // [T, 2]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("teacher", a.teacher, Access::kRead);
    f("parts", a.parts, Access::kRead);
    f("sums", a.sums, Access::kWrite);
  }
};

// The divergence of every token, and, where asked for, loss_mask * seed * its derivative by this rank's
// logits of the student, 0 in padding; seed = slot kLossSeed of `state`.
struct DivergenceMerge {
  static constexpr const char* kName = "divergence merge";
  TensorView logits, teacher;  // [T, V']
  TensorView parts, sums;      // [ranks, T, 4], [ranks, T, 2]
  TensorView loss_mask;        // fp32 [T]
  std::int64_t columns = 0;
  Divergence divergence;
  TensorView state;     // fp64 [StepSlot::kCount]; none without gradient
  TensorView gradient;  // [T, V']: may be the memory of logits or teacher; none: only the losses
  TensorView losses;    // [T] accumulation type, not masked

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("teacher", a.teacher, Access::kRead);
    f("parts", a.parts, Access::kRead);
    f("sums", a.sums, Access::kRead);
    f("loss_mask", a.loss_mask, Access::kRead);
    f("state", a.state, Access::kRead);
    f("gradient", a.gradient, Access::kWrite);
    f("losses", a.losses, Access::kWrite);
  }
};

}  // namespace stoa::ops
