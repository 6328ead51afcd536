// The tile products of gemm_tiles.h with tiles in plain memory, for tests on processors without AMX. No
// program links them.
#pragma once

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/quantised_kernels.h"
#ifndef STOA_ISA
#include "ops/cpu/gemm.h"
#endif

namespace stoa::ops::cpu {

namespace portable {
const ProductKernels& emulated_products();
// A processor that is broken: its last row of sums is never stored.
const ProductKernels& broken_products();
}  // namespace portable

#if defined(__x86_64__)
namespace avx512bf16 {
const ProductKernels& emulated_products();
const QuantisedTiles& emulated_quantised();
}  // namespace avx512bf16
#endif

#ifndef STOA_ISA
// Emulated tiles in kernels for AVX-512-BF16, which every processor with AMX has; below that in portable
// ones, without tiles for quantised matrices.
inline MatrixKernels with_emulated_tiles(InstructionSet isa, bool rows_apart = false) {
  MatrixKernels kernels = matrix_kernels(isa, rows_apart);
  kernels.bf16 = &portable::emulated_products();
  kernels.quantised = nullptr;
#if defined(__x86_64__)
  if (isa >= InstructionSet::kAvx512Bf16) {
    kernels.bf16 = &avx512bf16::emulated_products();
    kernels.quantised = &avx512bf16::emulated_quantised();
  }
#endif
  return kernels;
}
inline MatrixKernels with_broken_tiles(InstructionSet isa) {
  MatrixKernels kernels = matrix_kernels(isa);
  kernels.bf16 = &portable::broken_products();
  return kernels;
}
#endif

}  // namespace stoa::ops::cpu
