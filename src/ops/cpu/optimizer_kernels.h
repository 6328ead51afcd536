// Kernels of the optimizers (ops/optimizer.h), on flat ranges of elements.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct AdamArgs {
  float* master = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  void* compute = nullptr;  // or null
  Element compute_type = Element::kF32;
  float gradient_factor = 1;
  float beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1;
  float step = 0;         // rate / (1 - beta1^t)
  float correction2 = 1;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
  float keep = 1;   // 1 - rate * decay (decoupled), else 1
  float decay = 0;  // joins the gradient (not decoupled), else 0
};

struct SgdArgs {
  float* master = nullptr;
  const float* gradient = nullptr;
  float* momentum = nullptr;  // or null
  void* compute = nullptr;
  Element compute_type = Element::kF32;
  float gradient_factor = 1, momentum_factor = 0, rate = 0, decay = 0;
};

struct OptimizerKernels {
  void (*adam)(const AdamArgs& args, std::int64_t begin, std::int64_t end);
  void (*sgd)(const SgdArgs& args, std::int64_t begin, std::int64_t end);
};

STOA_FOR_EACH_WIDTH(const OptimizerKernels&, optimizer_kernels)

}  // namespace stoa::ops::cpu
