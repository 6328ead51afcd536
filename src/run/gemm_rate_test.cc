#include "run/gemm_rate.h"

#include <gtest/gtest.h>

#include "comm/threads/thread_world.h"
#include "device/host/host_device.h"
#include "ops/cpu/cpu_backend.h"
#include "parallel/thread_contexts.h"

namespace stoa::run {
namespace {

constexpr GemmShape kShapes[] = {{64, 64, 64}, {32, 128, 64}};

infer::Machine one_thread() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

TEST(GemmRate, RanksMeasureTogether) {
  const grid::RankGrid grid({1, 1, 1, 3, 1});
  comm::ThreadWorld world(3);
  const auto contexts = parallel::make_contexts(world, grid);
  std::vector<double> rates(3);
  world.run([&](int rank) {
    infer::Machine machine = one_thread();
    rates[static_cast<std::size_t>(rank)] =
        measure_gemm_tflops(machine, DType::kF32, kShapes,
                            &contexts[static_cast<std::size_t>(rank)].along(parallel::Group::kWorld));
  });
  EXPECT_GT(rates[0], 0);
  EXPECT_EQ(rates[1], rates[0]) << "all know the rate of all";
  EXPECT_EQ(rates[2], rates[0]);
  infer::Machine alone = one_thread();
  EXPECT_GT(measure_gemm_tflops(alone, DType::kF32, kShapes), 0);
}

TEST(GemmRate, SmallRunsAreMeasuredBySmallProducts) {
  const auto flops = [](std::span<const GemmShape> shapes) {
    double sum = 0;
    for (const GemmShape& s : shapes)
      sum += 2 * static_cast<double>(s.rows) * static_cast<double>(s.outputs) * static_cast<double>(s.inputs);
    return sum;
  };
  EXPECT_LT(flops(quick_shapes(1e9)), 1e9);
  EXPECT_LT(flops(ceiling_shapes(1e9)), 1e9);
  EXPECT_GT(flops(quick_shapes(1e15)), 1e9);
  EXPECT_GT(flops(ceiling_shapes(1e15)), 1e11);
}

}  // namespace
}  // namespace stoa::run
