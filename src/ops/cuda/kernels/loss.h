// Cross entropy over the vocabulary (ops/loss.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct CrossEntropyArgs {
  Element type = Element::kF32;
  void* logits = nullptr;  // [rows, width]; merge: or null
  std::int64_t rows = 0, width = 0;
  // Columns of the vocabulary that are here: [first_column, first_column + columns).
  std::int64_t first_column = 0, columns = 0, vocabulary = 0;
  const std::int32_t* labels = nullptr;
  const float* mask = nullptr;
  const double* seed = nullptr;  // null: no gradient
  float* losses = nullptr;
  float smoothing = 0, z_weight = 0;
  float* part =
      nullptr;  // [rows, 4]: largest logit, sum of exponentials below it, label's logit, sum of logits
  const float* parts = nullptr;  // [ranks, rows, 4]
  std::int64_t ranks = 0;
  bool wide = false;
};
void launch_cross_entropy(const CrossEntropyArgs& args, void* stream);        // all columns are here
void launch_cross_entropy_part(const CrossEntropyArgs& args, void* stream);   // writes part
void launch_cross_entropy_merge(const CrossEntropyArgs& args, void* stream);  // reads parts

struct SumLossesArgs {
  const float* losses = nullptr;
  const float* mask = nullptr;
  std::int64_t count = 0;
  double* sum = nullptr;  // +=
};
void launch_sum_losses(const SumLossesArgs& args, void* stream);

}  // namespace stoa::ops::cuda
