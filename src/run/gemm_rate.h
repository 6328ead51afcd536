// The machine's own matrix-product rate, measured in a moment: what "share of peak" in the progress line
// divides by. `stoa bench gemm` measures with more care.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "infer/machine.h"
#include "ops/linear.h"

namespace stoa::run {

struct GemmShape {
  std::int64_t rows, outputs, inputs;
};

// A product of random matrices that is run again and again; its memory is its own.
class TimedProduct {
 public:
  TimedProduct(infer::Machine& machine, DType type, const GemmShape& shape);

  double tflop() const;  // of one product
  // Of `products` in a row, now. `together`: its members begin at once and the slowest one counts, for all of
  // them; a collective call.
  double seconds(int products, comm::Communicator* together = nullptr);

 private:
  void run_once();

  infer::Machine& machine_;
  std::vector<Buffer> memory_;  // the last one: workspace
  std::size_t workspace_bytes_ = 0;
  ops::LinearForward op_;
};

// Best rate over these products of random matrices in `type`, a few times each, in TFLOP/s; 0 on a meta
// machine. `together`: of all its members, each on its machine: they begin every product at once and the
// slowest one counts; a collective call, with the same result for all.
double measure_gemm_tflops(infer::Machine& machine, DType type, std::span<const GemmShape> shapes,
                           comm::Communicator* together = nullptr);

// A moment's measurement, for the progress line.
inline constexpr std::array<GemmShape, 1> kQuickShapes{{{1024, 3072, 768}}};
// What `stoa bench train` calls gemm_tflops.
inline constexpr std::array<GemmShape, 4> kCeilingShapes{
    {{4096, 3072, 768}, {4096, 768, 3072}, {768, 3072, 4096}, {4096, 4096, 4096}}};
// The same for a run of so many floating-point operations: where it takes less than these products would, as
// runs of tests do, a smaller product says enough.
std::span<const GemmShape> quick_shapes(double flops);
std::span<const GemmShape> ceiling_shapes(double flops);

}  // namespace stoa::run
