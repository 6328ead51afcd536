#include "run/gemm_rate.h"

#include <algorithm>
#include <chrono>

#include "ops/op_context.h"

namespace stoa::run {

double measure_gemm_tflops(Machine& machine, DType type) {
  if (machine.device->kind() == DeviceKind::kMeta) return 0;
  // Backends that prove numbers have no rate to compare with, and these products would take them minutes.
  if (machine.backend->name() == "reference" || machine.backend->name() == "check") return 0;
  constexpr std::int64_t kRows = 1024, kIn = 768, kOut = 3072;
  ops::LinearForward op;
  const auto tensor = [&](std::vector<Buffer>& keep, std::int64_t rows, std::int64_t columns) {
    keep.push_back(machine.device->allocate(static_cast<std::size_t>(rows * columns) * size_of(type)));
    machine.device->fill_zero(keep.back().data(), keep.back().bytes(), *machine.stream);
    return TensorView(keep.back().data(), type, {rows, columns}, machine.device->kind());
  };
  std::vector<Buffer> memory;
  op.x = tensor(memory, kRows, kIn);
  op.w = tensor(memory, kOut, kIn);
  op.y = tensor(memory, kRows, kOut);
  const std::size_t workspace = machine.backend->workspace_bytes(op) + Arena::kAlignment;
  memory.push_back(machine.device->allocate(workspace));
  Scratch scratch(TensorView(memory.back().data(), DType::kU8, {static_cast<std::int64_t>(workspace)}, machine.device->kind()));
  ops::OpContext context{*machine.backend, *machine.stream, scratch};
  double best = 0;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    ops::run(context, op);
    machine.stream->synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (repeat > 0) best = std::max(best, ops::matrix_flops(op) / seconds * 1e-12);
  }
  return best;
}

}  // namespace stoa::run
