// The scalars of a training step live in device memory, so that a step has no host branch: one fp64 vector
// with named slots. The host writes a few before the step (BeginStep) and reads all a step late.
#pragma once

#include <cstdint>

namespace stoa::ops {

enum class StepSlot : std::uint8_t {
  kLossSum,     // sum of token losses of the step (not scaled)
  kTokens,      // valid tokens N of the global batch
  kLossSeed,    // loss_scale / N: where backward starts
  kLossScale,   // 1 unless fp16
  kSquares,     // sum of squares of the scaled main gradients
  kGradNorm,    // norm of the unscaled gradients, before clipping
  kGradFactor,  // clip factor / loss_scale: the optimizer multiplies gradients by it
  kFoundInf,    // 1: gradients are not finite, the step is skipped
  kLearningRate,
  kWeightDecay,
  kUpdates,  // updates done; PrepareUpdate counts the one it prepares, so it is Adam's step t
  kSamples,  // samples of steps not skipped: the clock of the schedules (this step's rate is taken before its
             // own)
  kGoodSteps,   // clean steps in a row, for the dynamic loss scale
  kHysteresis,  // infs left before the scale falls
  kSkipped,     // steps skipped so far
  kCount
};

}  // namespace stoa::ops
