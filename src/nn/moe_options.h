// What a mixture of experts is made of (nn/moe.h).
#pragma once

#include <optional>
#include <string>

#include "ops/activation.h"
#include "ops/moe.h"
#include "parallel/expert_place.h"

namespace stoa::nn {

struct MoeOptions {
  std::string name;  // "layers.0.moe"
  std::int64_t hidden = 0, ffn = 0;
  std::int64_t experts = 0, chosen = 0;
  ops::RouterOptions router;
  double bias_rate = 0;       // step size of the selection bias (ExpertBiasUpdate); 0: no such bias
  std::int64_t capacity = 0;  // most assignments of a sequence to an expert; 0: no limit
  ops::DropPolicy drop = ops::DropPolicy::kWeight;
  std::int64_t length = 0;  // tokens of a sequence, where there is a capacity
  // Memory for rows of experts on other ranks, in even loads; none: for whatever may come.
  std::optional<double> buffer_factor;
  double balance = 0, z = 0;    // coefficients of the router's losses (ops::RouterBackward)
  std::int64_t shared_ffn = 0;  // width of the shared experts together; 0: none
  bool shared_gate = false;     // their output is gated per token (nn/gated_sublayer.h)
  ops::ActivationKind activation = ops::ActivationKind::kSilu;
  bool gated = true;
  ops::ActivationClamp clamp = {};  // of the clamped swiglu
  bool bias = false;                // of the router and of the experts' layers
  double deviation = 0.02, output_deviation = 0.02;
  parallel::TensorPlace place;          // of the stream, and of the shared experts
  parallel::ExpertPlace experts_place;  // of the others
};

}  // namespace stoa::nn
