// Learning rate and weight decay as functions of samples seen (Megatron-LM,
// core/optimizer_param_scheduler.py).
//
// `samples` counts the samples of all updates done BEFORE this one (slot kSamples): the first update is made
// with the rate at 0 samples, the second with the rate at one batch. Steps that were skipped do not count.
#pragma once

#include "ops/optimizer.h"

namespace stoa::ops {

// Warm-up (samples <= warmup, when there is one): initial + (peak - initial) samples/warmup.
// kConstant: peak. Past decay_samples: minimum. Else, with r = (samples - warmup)/(decay - warmup), minimum +
// c (peak - minimum):
//   kLinear c = 1 - r; kCosine c = (cos(pi r) + 1)/2;
//   kInverseSquareRoot: max(minimum, peak sqrt(max(warmup, 1)) / sqrt(max(samples, 1)));
//   kWarmupStableDecay: c = 1 until decay - stable_decay, then with q from 0 to 1 over the last stable_decay
//   samples:
//     kExponential 2 * 0.5^q - 1, kLinear 1 - q, kCosine (cos(pi q) + 1)/2, kMinusSquareRoot 1 - sqrt(q).
double learning_rate(const RateSchedule& schedule, double samples);

// start + c (end - start), q = min(1, samples / schedule.samples): kConstant end; kLinear c = q; kCosine c =
// (cos(pi (1-q)) + 1)/2.
double weight_decay(const WeightDecaySchedule& schedule, double samples);

}  // namespace stoa::ops
