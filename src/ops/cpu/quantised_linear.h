// Products with matrices in the numbers of quantised files (ops/quantised_linear.h).
#pragma once

#include "base/worker_pool.h"
#include "ops/cpu/gemm.h"
#include "ops/quantised_linear.h"

namespace stoa::ops::cpu {

std::size_t workspace_bytes(const QuantisedLinear& op, const MatrixKernels& kernels, int workers);
// `isa`: of the kernels on vectors.
void run(const QuantisedLinear& op, const MatrixKernels& kernels, InstructionSet isa, WorkerPool& pool,
         void* workspace);

}  // namespace stoa::ops::cpu
