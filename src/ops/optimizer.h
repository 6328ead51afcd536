// The update at the end of a step. All decisions (skip, clip, rate) are made from device scalars
// (step_state.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/access.h"

namespace stoa::ops {

// Learning-rate and weight-decay schedules over samples (Megatron-LM, optimizer_param_scheduler.py; the
// formulas are in ops/schedules.h).
enum class RateDecay : std::uint8_t { kConstant, kLinear, kCosine, kInverseSquareRoot, kWarmupStableDecay };
enum class StableDecay : std::uint8_t { kExponential, kLinear, kCosine, kMinusSquareRoot };
enum class WeightDecayRamp : std::uint8_t { kConstant, kLinear, kCosine };

struct RateSchedule {
  RateDecay decay = RateDecay::kConstant;
  StableDecay stable_decay = StableDecay::kExponential;
  double initial = 0, peak = 0, minimum = 0;
  double warmup_samples = 0, decay_samples = 0, stable_decay_samples = 0;
};
struct WeightDecaySchedule {
  WeightDecayRamp ramp = WeightDecayRamp::kConstant;
  double start = 0, end = 0, samples = 0;
};
// Dynamic loss scale (Micikevicius et al. 2018; rules of Megatron's grad_scaler.py).
struct LossScale {
  bool dynamic = false;
  double minimum = 1, growth = 2, backoff = 0.5;
  std::int64_t window = 1000, hysteresis = 2;
};

// kTokens = tokens, kLossSum = kSquares = 0, kLossSeed = kLossScale / tokens (0 without tokens).
struct BeginStep {
  static constexpr const char* kName = "begin step";
  TensorView state;
  double tokens = 0;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("state", a.state, Access::kReadWrite);
  }
};

// Maps a contiguous tensor to the canonical tensor of which it is a part: element i is canonical element
// origin + j / width * pitch + j % width with j = i + skip. (Rows of `width` elements, cut out of rows of
// `pitch`; `skip` of them precede the tensor.) width = pitch: one run from origin + skip.
struct CanonicalCut {
  std::int64_t origin = 0, skip = 0, width = 1, pitch = 1;

  std::int64_t canonical(std::int64_t i) const {
    const std::int64_t j = i + skip;
    return origin + j / width * pitch + j % width;
  }
  // How many of the first `count` elements come before a canonical element.
  std::int64_t before(std::int64_t element, std::int64_t count) const {
    const std::int64_t j = element - origin;
    if (j <= 0) return 0;
    const std::int64_t column = j % pitch;
    return std::clamp<std::int64_t>(j / pitch * width + std::min(column, width) - skip, 0, count);
  }
};

// sums[b] += sum of x^2, in fp64, over the elements of x in the b-th block of 65,536 elements of the
// canonical tensor; b = 0 is the block of x's first element. A norm computed from block sums does not depend
// on how tensors are distributed over ranks.
struct SumSquares {
  static constexpr const char* kName = "sum squares";
  static constexpr std::int64_t kBlock = 65536;
  TensorView x;     // contiguous, accumulation type
  TensorView sums;  // fp64, one for every block that x touches: [blocks()]
  CanonicalCut cut;

  std::int64_t first_block() const { return cut.canonical(0) / kBlock; }
  std::int64_t blocks() const {
    return x.elements() == 0 ? 0 : cut.canonical(x.elements() - 1) / kBlock - first_block() + 1;
  }
  // First element of x in its b-th block; x.elements() for b = blocks().
  std::int64_t begin(std::int64_t b) const { return cut.before((first_block() + b) * kBlock, x.elements()); }
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("sums", a.sums, Access::kReadWrite);
  }
};

// state[kSquares] += the block sums of a tensor, in block order.
struct AddSquares {
  static constexpr const char* kName = "add squares";
  TensorView sums;  // fp64 [blocks]
  TensorView state;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("sums", a.sums, Access::kRead);
    f("state", a.state, Access::kReadWrite);
  }
};

// After all squares are summed: norm, found-inf, clip factor, rate and decay of this step, counters, next
// loss scale. A step without tokens (kTokens = 0) is skipped like one with infinite gradients, but does not
// touch the loss scale.
struct PrepareUpdate {
  static constexpr const char* kName = "prepare update";
  TensorView state;
  double max_norm = 0;  // 0: no clipping. Factor max_norm / (norm + 1e-6) where below 1
  RateSchedule rate;
  WeightDecaySchedule weight_decay;
  LossScale loss_scale;
  double samples = 0;  // of this step
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("state", a.state, Access::kReadWrite);
  }
};

// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019) on one tensor; also writes the compute copy.
struct AdamUpdate {
  static constexpr const char* kName = "adam update";
  TensorView master;    // accumulation type
  TensorView compute;   // copy in compute type; none if layers read the master itself
  TensorView gradient;  // accumulation type
  TensorView m, v;      // moments
  TensorView state;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decoupled =
      true;  // AdamW: decay separate from the moments; false: decay added to the gradient (Adam with L2)
  double rate_factor = 1;   // of the learning rate
  double decay_factor = 1;  // of the weight decay (0: biases, norms)
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("master", a.master, Access::kReadWrite);
    f("compute", a.compute, Access::kWrite);
    f("gradient", a.gradient, Access::kRead);
    f("m", a.m, Access::kReadWrite);
    f("v", a.v, Access::kReadWrite);
    f("state", a.state, Access::kRead);
  }
};

// Stochastic gradient descent with momentum (PyTorch's form: momentum starts as the first gradient; decay is
// added to the gradient).
struct SgdUpdate {
  static constexpr const char* kName = "sgd update";
  TensorView master, compute, gradient;
  TensorView momentum;  // or none
  TensorView state;
  double momentum_factor = 0;
  double rate_factor = 1, decay_factor = 1;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("master", a.master, Access::kReadWrite);
    f("compute", a.compute, Access::kWrite);
    f("gradient", a.gradient, Access::kRead);
    f("momentum", a.momentum, Access::kReadWrite);
    f("state", a.state, Access::kRead);
  }
};

}  // namespace stoa::ops
