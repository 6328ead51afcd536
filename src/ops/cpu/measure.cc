#include "ops/cpu/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

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
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Where workers leave their sums, so that the work has a result; a line each.
struct alignas(64) Sum {
  float value = 0;
};

}  // namespace

double register_tflops(InstructionSet isa, DType type, WorkerPool& pool) {
  const GemmKernels& kernels = STOA_KERNELS(isa, gemm_kernels);
  const bool pairs = kernels.pairs && type == DType::kBF16;
  struct Shared {
    float (*spin)(std::int64_t);
    std::int64_t rounds;
    std::vector<Sum> sums;
  } shared{pairs ? kernels.spin_pairs : kernels.spin_f32, 1'000'000, std::vector<Sum>(pool.size())};
  const double seconds = best_seconds(7, [&] {
    pool.run(pool.size(),
             [&shared](std::int64_t task, int) { shared.sums[task].value += shared.spin(shared.rounds); });
  });
  const double per_round = 2.0 * kernels.rows * kernels.columns * (pairs ? 2 : 1);
  return per_round * static_cast<double>(shared.rounds) * pool.size() / seconds * 1e-12;
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
