// Kernels of the activations (ops/activation.h) over a range of rows.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

enum class Curve : std::uint8_t {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kSilu,
  kRelu,
  kSquaredRelu,
  kTanh,
  kClampedSwiglu,
  kSigmoid
};

struct ActivationArgs {
  Curve curve = Curve::kGelu;
  bool gated = false;
  Rows x, y, dy, dx;
  std::int64_t width = 0;      // columns of y
  float alpha = 0, limit = 0;  // of the clamped swiglu
};

struct ActivationKernels {
  void (*forward)(const ActivationArgs& args, std::int64_t begin, std::int64_t end);
  void (*backward)(const ActivationArgs& args, std::int64_t begin, std::int64_t end);
};

STOA_FOR_EACH_WIDTH(const ActivationKernels&, activation_kernels)

}  // namespace stoa::ops::cpu
