// What it costs that a token's bits do not depend on the others of a pass: the products of 30 layers of SmolLM2-135M in bf16,
// by the kernels of a server and by those that are chosen by the number of tokens, in turns.
//   cmake --preset release -D STOA_BENCHMARKS=ON && cmake --build --preset release --target batch_invariance
//   build/release/bench/batch_invariance [THREADS]
// A line for each number of tokens: median milliseconds of both, and the median and the quartiles of their ratios.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/timing.h"
#include "base/worker_pool.h"
#include "device/host/host_device.h"
#include "ops/all.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/op_context.h"

namespace stoa {
namespace {

struct Shape {
  std::int64_t outputs, inputs;
};
constexpr Shape kShapes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};  // of a layer
constexpr int kLayers = 30;
constexpr std::int64_t kWorkspace = 64 << 20;

class Products {
 public:
  explicit Products(int threads)
      : pool_(threads),
        by_tokens_(pool_, ops::cpu::best_instruction_set(), false),
        invariant_(pool_, ops::cpu::best_instruction_set(), true),
        workspace_(device_.allocate(kWorkspace)) {
    for (int layer = 0; layer < kLayers; ++layer)
      for (const Shape& shape : kShapes) weights_.push_back(matrix(shape.outputs, shape.inputs));
  }

  void measure(std::int64_t tokens, int rounds) {
    std::vector<TensorView> x, y;
    for (const Shape& shape : kShapes) {
      x.push_back(matrix(tokens, shape.inputs));
      y.push_back(matrix(tokens, shape.outputs));
    }
    std::vector<double> chosen, same, ratios;
    for (int round = -1; round < rounds; ++round) {  // the first one touches memory
      double times[2];
      for (const int turn : {0, 1}) {
        const int which = (turn + round) & 1;
        times[which] = seconds(which ? invariant_ : by_tokens_, x, y);
      }
      if (round < 0) continue;
      chosen.push_back(times[0]);
      same.push_back(times[1]);
      ratios.push_back(times[1] / times[0]);
    }
    std::ranges::sort(ratios);
    fmt::print("{:4} tokens: by their number {:.2f} ms, invariant {:.2f} ms, ratio {:.3f} ({:.3f} to {:.3f})\n", tokens,
               1e3 * median_of(chosen), 1e3 * median_of(same), ratios[ratios.size() / 2], ratios[ratios.size() / 4],
               ratios[3 * ratios.size() / 4]);
  }

 private:
  double seconds(ops::Backend& backend, const std::vector<TensorView>& x, const std::vector<TensorView>& y) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const std::size_t shape = i % std::size(kShapes);
      Scratch scratch(TensorView(workspace_.data(), DType::kU8, {kWorkspace}));
      ops::OpContext context{backend, *stream_, scratch};
      ops::run(context, ops::LinearForward{x[shape], weights_[i], {}, y[shape]});
    }
    return seconds_since(begin);
  }
  // Of numbers between 0.008 and 2, of both signs.
  TensorView matrix(std::int64_t rows, std::int64_t columns) {
    memory_.push_back(device_.allocate(static_cast<std::size_t>(rows * columns) * 2));
    auto* const numbers = static_cast<std::uint16_t*>(memory_.back().data());
    for (std::int64_t i = 0; i < rows * columns; ++i)
      numbers[i] = static_cast<std::uint16_t>(0x3c00 + (random_() & 0x83ff));
    return TensorView(numbers, DType::kBF16, {rows, columns});
  }

  WorkerPool pool_;
  ops::cpu::CpuBackend by_tokens_, invariant_;
  HostDevice device_;
  std::unique_ptr<Stream> stream_ = device_.create_stream();
  std::mt19937 random_{1};
  std::vector<Buffer> memory_;
  std::vector<TensorView> weights_;
  Buffer workspace_;
};

}  // namespace
}  // namespace stoa

int main(int argc, char** argv) {
  stoa::Products products(argc > 1 ? std::atoi(argv[1]) : 2);
  for (const std::int64_t tokens : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512})
    products.measure(tokens, tokens <= 64 ? 15 : 9);
}
