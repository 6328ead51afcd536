// Kernels of distillation's losses (ops/divergence.h), a row of logits at a time.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"
#include "ops/divergence.h"

namespace stoa::ops::cpu {

// Student and teacher of a token: the first n columns, and what the whole vocabulary says of them.
struct DivergenceRow {
  Element type = Element::kF32;
  const void *student = nullptr, *teacher = nullptr;
  std::int64_t n = 0;
  DivergenceKind kind = DivergenceKind::kForward;
  float inverse_temperature = 1, mixture = 0;
  float student_lse = 0, teacher_lse = 0;
};

struct DivergenceKernels {
  void (*sums)(const DivergenceRow& row, float* of_teacher, float* of_student);
  // gradient[i] for i < n, 0 for n <= i < width. `weight`: of the derivative by logits over the temperature.
  void (*gradient)(const DivergenceRow& row, float weight, float of_student, void* gradient,
                   std::int64_t width);
};

STOA_FOR_EACH_WIDTH(const DivergenceKernels&, divergence_kernels)

}  // namespace stoa::ops::cpu
