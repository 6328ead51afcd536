#include "run/gemm_rate.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/timing.h"
#include "infer/host_window.h"
#include "ops/op_context.h"

namespace stoa::run {

namespace {

constexpr std::array<GemmShape, 1> kSmallShapes{{{256, 512, 256}}};
constexpr double kSmallRun = 1e12;  // operations: seconds of a CPU

// Values in [-0.5, 0.5) that no zero-skipping or compression can profit from.
void fill_random(TensorView host) {
  dispatch_float(host.dtype, [&]<class T>() {
    T* out = host.as<T>();
    std::uint32_t x = 12345;
    for (std::int64_t i = 0; i < host.elements(); ++i) {
      x = x * 1664525u + 1013904223u;
      out[i] = T(static_cast<float>(x >> 8) * 0x1p-24f - 0.5f);
    }
  });
}

// The slowest member's.
double slowest(double seconds, comm::Communicator* together, Stream& stream) {
  if (together)
    together->all_reduce(TensorView(&seconds, DType::kF64, {1}), comm::ReduceOp::kMax, stream)->wait();
  return seconds;
}

double rate_of(infer::Machine& machine, DType type, const GemmShape& shape, comm::Communicator* together) {
  TimedProduct product(machine, type, shape);
  double best = 0, spent = 0;
  for (int repeat = 0; repeat < 1 || (repeat < 5 && spent < 0.2); ++repeat) {
    const double seconds = product.seconds(1, together);
    spent += seconds;
    best = std::max(best, product.tflop() / seconds);
  }
  return best * (together ? together->size() : 1);
}

}  // namespace

TimedProduct::TimedProduct(infer::Machine& machine, DType type, const GemmShape& shape) : machine_(machine) {
  const auto tensor = [&](std::int64_t rows, std::int64_t columns) {
    memory_.push_back(machine.device->allocate(static_cast<std::size_t>(rows * columns) * size_of(type)));
    const TensorView view(memory_.back().data(), type, {rows, columns}, machine.device->kind());
    infer::write_tensor(machine, view, fill_random);
    return view;
  };
  op_.x = tensor(shape.rows, shape.inputs);
  op_.w = tensor(shape.outputs, shape.inputs);
  op_.y = tensor(shape.rows, shape.outputs);
  workspace_bytes_ = machine.backend->workspace_bytes(op_) + Arena::kAlignment;
  memory_.push_back(machine.device->allocate(workspace_bytes_));
  run_once();  // touches memory
}

void TimedProduct::run_once() {
  Scratch scratch(TensorView(memory_.back().data(), DType::kU8, {static_cast<std::int64_t>(workspace_bytes_)},
                             machine_.device->kind()));
  ops::OpContext context{*machine_.backend, *machine_.stream, scratch};
  ops::run(context, op_);
  machine_.stream->synchronize();
}

double TimedProduct::tflop() const { return ops::matrix_flops(op_) * 1e-12; }

double TimedProduct::seconds(int products, comm::Communicator* together) {
  if (together) together->barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < products; ++i) run_once();
  const double own = seconds_since(begin);
  return slowest(own, together, *machine_.stream);
}

std::span<const GemmShape> quick_shapes(double flops) {
  if (flops < kSmallRun) return kSmallShapes;
  return kQuickShapes;
}
std::span<const GemmShape> ceiling_shapes(double flops) {
  if (flops < kSmallRun) return kSmallShapes;
  return kCeilingShapes;
}

double measure_gemm_tflops(infer::Machine& machine, DType type, std::span<const GemmShape> shapes,
                           comm::Communicator* together) {
  double best = 0;
  if (machine.device->kind() == DeviceKind::kMeta) return best;
  // Backends that prove numbers have no rate to compare with, and these products would take them a minute.
  if (machine.backend->name() == "reference" || machine.backend->name() == "check") return best;
  for (const GemmShape& shape : shapes) best = std::max(best, rate_of(machine, type, shape, together));
  return best;
}

}  // namespace stoa::run
