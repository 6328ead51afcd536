// Starts a kernel: a struct with `Args`, `kName`, `kThreads` (the most threads of a block) and `run(thread,
// args)`; where it says so, its registers are such that `kResident` blocks fit a multiprocessor.
#pragma once

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/launch_error.h"
#include "ops/cuda/kernels/thread.h"
#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {

struct Grid {
  std::int64_t x = 1, y = 1;
  int threads = 256;
  std::size_t shared = 0;  // bytes
};

// Calls body(T{}) with the storage type; `Body` is a generic lambda.
template <class Body>
void with_type(Element type, Body&& body) {
  switch (type) {
    case Element::kF64:
      return body(double{});
    case Element::kF32:
      return body(float{});
    case Element::kBF16:
      return body(bf16{});
    case Element::kF16:
      return body(f16{});
  }
}
// The same without fp64, for kernels that have no such variant: they are never asked for it.
template <class Body>
void with_fast_type(Element type, Body&& body) {
  switch (type) {
    case Element::kBF16:
      return body(bf16{});
    case Element::kF16:
      return body(f16{});
    default:
      return body(float{});
  }
}

template <int V>
struct Width {
  static constexpr int value = V;
};
template <class Body>
void with_width(bool wide, Body&& body) {
  if (wide)
    body(Width<8>{});
  else
    body(Width<1>{});
}

inline int round_up_warps(std::int64_t threads, int most) {
  const std::int64_t rounded = ceil_div(threads < 1 ? 1 : threads, 32) * 32;
  return static_cast<int>(rounded < most ? rounded : most);
}

#ifdef __CUDACC__
template <class Kernel>
constexpr int resident_blocks() {
  if constexpr (requires { Kernel::kResident; })
    return Kernel::kResident;
  else
    return 1;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, resident_blocks<Kernel>())
    kernel_entry(const __grid_constant__ typename Kernel::Args args) {
  Kernel::run(Thread(), args);
}

template <class Kernel>
void launch(const Grid& grid, void* stream, const typename Kernel::Args& args) {
  cudaError_t error = cudaSuccess;
  if (grid.x <= 0 || grid.y <= 0) return;
  if (grid.shared > 48 * 1024)
    error = cudaFuncSetAttribute(kernel_entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(grid.shared));
  if (error == cudaSuccess) {
    kernel_entry<Kernel>
        <<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)),
           static_cast<unsigned>(grid.threads), grid.shared, static_cast<cudaStream_t>(stream)>>>(args);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess)
    launch_failed(Kernel::kName, static_cast<int>(error), cudaGetErrorString(error), grid.x, grid.y,
                  grid.threads, grid.shared);
}
#else
template <class Kernel>
void launch(const Grid& grid, void*, const typename Kernel::Args& args) {
  emulation::run_grid(Kernel::kName, grid.x, grid.y, grid.threads, Kernel::kThreads, grid.shared,
                      [&](const Thread& thread) { Kernel::run(thread, args); });
}
#endif

}  // namespace stoa::ops::cuda
