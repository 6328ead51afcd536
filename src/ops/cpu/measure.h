// What the machine itself can do: the ceilings that `stoa bench gemm` prints next to what is reached.
#pragma once

#include "base/worker_pool.h"
#include "ops/cpu/instruction_set.h"
#include "tensor/tensor_view.h"

namespace stoa::ops::cpu {

// TFLOP/s of multiply-adds that never leave the registers, all workers at once: bf16 dot products (of tiles,
// if that is what `isa` multiplies with) where the instruction set has them and `type` is bf16, else fp32.
double register_tflops(InstructionSet isa, DType type, WorkerPool& pool);

// Bytes per second of one sum over `memory` (fp32), all workers; best of `repeats`.
double read_bandwidth(const TensorView& memory, InstructionSet isa, WorkerPool& pool, int repeats = 5);

}  // namespace stoa::ops::cpu
