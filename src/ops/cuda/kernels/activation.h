// Activations, plain and gated (ops/activation.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

enum class ActivationCode : std::uint8_t {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kSilu,
  kRelu,
  kSquaredRelu,
  kTanh,
  kSigmoid,
  kClampedSwiglu
};

struct ActivationArgs {
  ActivationCode kind = ActivationCode::kGelu;
  bool gated = false;
  Element type = Element::kF32;
  const void* x = nullptr;   // [rows, columns], gated: [rows, 2 * columns]
  const void* dy = nullptr;  // backward
  void* y = nullptr;         // forward: y; backward: dx
  std::int64_t rows = 0, columns = 0;
  float alpha = 0, limit = 0;  // kClampedSwiglu
  bool wide = false;           // columns are a multiple of 8 (or there is no gate), addresses of 16
};
void launch_activation_forward(const ActivationArgs& args, void* stream);
void launch_activation_backward(const ActivationArgs& args, void* stream);

}  // namespace stoa::ops::cuda
