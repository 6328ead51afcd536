#include "ops/cpu/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/timing.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_kernels.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kFloats = 2 << 20;  // read by one task

template <class Body>
double best_seconds(int repeats, Body&& body) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

// Where workers leave their sums, so that the work has a result; a line each.
struct alignas(64) Sum {
  float value = 0;
};

}  // namespace

double register_tflops(InstructionSet isa, DType type, WorkerPool& pool) {
  const MatrixKernels kernels = matrix_kernels(isa);
  struct Shared {
    const ProductKernels& products;
    std::int64_t rounds;
    std::vector<Sum> sums;
  } shared{kernels.bf16 && type == DType::kBF16 ? *kernels.bf16 : kernels.vectors->floats, 1'000'000,
           std::vector<Sum>(pool.size())};
  const double seconds = best_seconds(7, [&] {
    pool.run(pool.size(), [&shared](std::int64_t task, int) {
      if (shared.products.enter) shared.products.enter();
      shared.sums[task].value += shared.products.spin(shared.rounds);
      if (shared.products.leave) shared.products.leave();
    });
  });
  return shared.products.spin_flops * static_cast<double>(shared.rounds) * pool.size() / seconds * 1e-12;
}

double read_bandwidth(const TensorView& memory, InstructionSet isa, WorkerPool& pool, int repeats) {
  struct Shared {
    const float* data;
    std::int64_t count;
    float (*read)(const float*, std::int64_t);
    std::vector<Sum> sums;
  } shared{memory.as<float>(), memory.elements(), STOA_KERNELS(isa, gemm_kernels).read_sum,
           std::vector<Sum>(pool.size())};
  const double seconds = best_seconds(repeats, [&] {
    pool.run((shared.count + kFloats - 1) / kFloats, [&shared](std::int64_t task, int worker) {
      shared.sums[worker].value +=
          shared.read(shared.data + task * kFloats, std::min(kFloats, shared.count - task * kFloats));
    });
  });
  return static_cast<double>(memory.bytes()) / seconds;
}

}  // namespace stoa::ops::cpu
