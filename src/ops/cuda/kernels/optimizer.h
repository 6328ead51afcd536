// Norms, step scalars and updates (ops/optimizer.h). All decisions are read from device memory.
#pragma once

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/schedules.h"

namespace stoa::ops::cuda {

struct BeginStepArgs {
  double* state = nullptr;
  double tokens = 0;
};
void launch_begin_step(const BeginStepArgs& args, void* stream);

// Fields as in ops::SumSquares and its cut.
struct SumSquaresArgs {
  const float* x = nullptr;
  std::int64_t count = 0, blocks = 0, first_block = 0;
  std::int64_t origin = 0, skip = 0, width = 1, pitch = 1;
  double* sums = nullptr;  // [blocks], +=
  bool wide = false;
};
inline constexpr std::int64_t kSquaresBlock = 65536;
void launch_sum_squares(const SumSquaresArgs& args, void* stream);

struct AddSquaresArgs {
  const double* sums = nullptr;
  std::int64_t count = 0;
  double* total = nullptr;  // +=
};
void launch_add_squares(const AddSquaresArgs& args, void* stream);

struct PrepareArgs {
  double* state = nullptr;
  double max_norm = 0, samples = 0;
  RateArgs rate;
  DecayArgs weight_decay;
  LossScaleArgs loss_scale;
};
void launch_prepare_update(const PrepareArgs& args, void* stream);

struct UpdateArgs {
  float* master = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;  // Adam's first moment, momentum of SGD, or null
  float* v = nullptr;
  void* compute = nullptr;  // or null
  Element compute_type = Element::kF32;
  std::int64_t count = 0;
  const double* state = nullptr;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  bool decoupled = true;
  double momentum = 0;
  double rate_factor = 1, decay_factor = 1;
  bool wide = false;
};
void launch_adam(const UpdateArgs& args, void* stream);
void launch_sgd(const UpdateArgs& args, void* stream);

}  // namespace stoa::ops::cuda
