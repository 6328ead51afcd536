// Cross entropy over the vocabulary (ops/loss.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct CrossEntropyArgs {
  Element type = Element::kF32;
  void* logits = nullptr;  // [rows, columns]
  std::int64_t rows = 0, columns = 0, vocabulary = 0;
  const std::int32_t* labels = nullptr;
  const float* mask = nullptr;
  const double* seed = nullptr;  // null: no gradient
  float* losses = nullptr;
  bool wide = false;
};
void launch_cross_entropy(const CrossEntropyArgs& args, void* stream);

struct SumLossesArgs {
  const float* losses = nullptr;
  const float* mask = nullptr;
  std::int64_t count = 0;
  double* sum = nullptr;  // +=
};
void launch_sum_losses(const SumLossesArgs& args, void* stream);

}  // namespace stoa::ops::cuda
