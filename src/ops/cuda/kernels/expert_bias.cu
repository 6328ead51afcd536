#include <cmath>

#include "ops/cuda/kernels/expert_bias.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/sorted_rows.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBiasThreads = 256;

STOA_DEVICE float weight_of(const ExpertBiasArgs& a, std::int64_t row) {
  return a.weights ? a.weights[a.order[row]] : 1.0f;
}

// A block has a row.
template <class T>
struct ExpertBiasKernel {
  using Args = ExpertBiasArgs;
  static constexpr const char* kName = "expert bias";
  static constexpr int kThreads = kBiasThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x();
    const std::int32_t expert = a.sorted_experts[row];
    if (expert < 0) return;
    const float weight = weight_of(a, row), *bias = a.bias + expert * a.columns;
    T* y = static_cast<T*>(a.y) + row * a.columns;
    for (std::int64_t c = t.index(); c < a.columns; c += t.count())
      narrow(fmaf(weight, bias[c], widen(y[c])), y[c]);
  }
};

// Block (x, y): a thread for each of 256 columns, expert y, whose rows are added in their order.
template <class T>
struct ExpertBiasBackwardKernel {
  using Args = ExpertBiasArgs;
  static constexpr const char* kName = "expert bias backward";
  static constexpr int kThreads = kBiasThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t c = t.block_x() * kBiasThreads + t.index(), expert = t.block_y();
    if (c >= a.columns) return;
    const std::int64_t end = rows_below(a.sorted_experts, a.rows, expert + 1);
    float& out = a.out[expert * a.columns + c];
    float sum = a.accumulate ? out : 0.0f;
    for (std::int64_t r = rows_below(a.sorted_experts, a.rows, expert); r < end; ++r)
      sum = fmaf(weight_of(a, r), widen(static_cast<const T*>(a.y)[r * a.columns + c]), sum);
    out = sum;
  }
};

// A block has a row.
template <class T>
struct ExpertBiasWeightsKernel {
  using Args = ExpertBiasArgs;
  static constexpr const char* kName = "expert bias backward weights";
  static constexpr int kThreads = kBiasThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x();
    const std::int32_t expert = a.sorted_experts[row];
    if (expert < 0) return;
    const float* bias = a.bias + expert * a.columns;
    const T* dy = static_cast<const T*>(a.y) + row * a.columns;
    float sum = 0;
    for (std::int64_t c = t.index(); c < a.columns; c += t.count()) sum = fmaf(bias[c], widen(dy[c]), sum);
    sum = block_reduce<Add>(t, sum, t.shared<float>());
    if (t.index() == 0) a.out[a.order[row]] += sum;
  }
};

Grid bias_grid(const ExpertBiasArgs& a) {
  return {.x = a.rows,
          .threads = round_up_warps(a.columns, kBiasThreads),
          .shared = kBiasThreads / 32 * sizeof(float)};
}

}  // namespace

void launch_expert_bias(const ExpertBiasArgs& a, void* stream) {
  with_fast_type(a.type,
                 [&](auto type) { launch<ExpertBiasKernel<decltype(type)>>(bias_grid(a), stream, a); });
}

void launch_expert_bias_backward(const ExpertBiasArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<ExpertBiasBackwardKernel<decltype(type)>>(
        {.x = ceil_div(a.columns, std::int64_t{kBiasThreads}), .y = a.experts, .threads = kBiasThreads},
        stream, a);
  });
}

void launch_expert_bias_backward_weights(const ExpertBiasArgs& a, void* stream) {
  with_fast_type(
      a.type, [&](auto type) { launch<ExpertBiasWeightsKernel<decltype(type)>>(bias_grid(a), stream, a); });
}

}  // namespace stoa::ops::cuda
