// Products of 8-bit operands, to rehearse what a GPU will do: products of the codes in bf16, which has them
// all, part by part, and a pass over their sums.
#pragma once

#include "ops/cpu/gemm.h"

namespace stoa::ops::cpu {

// out = scale a b^T + bias, or out += that: `gemm` whose a and b are of 8 bits, not necessarily of one type.
void run_eight_bits(const Gemm& gemm, float scale, const MatrixKernels& kernels, WorkerPool& pool,
                    void* workspace);
// As of their namesakes in ops/cpu/gemm.h.
std::size_t workspace_bytes_of_eight_bits_any_rows(const Gemm& gemm, const MatrixKernels& kernels,
                                                   int workers);
std::size_t workspace_bytes_of_eight_bits_any_reduction(const Gemm& gemm, const MatrixKernels& kernels,
                                                        int workers);

}  // namespace stoa::ops::cpu
