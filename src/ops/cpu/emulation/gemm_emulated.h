// The tile products of gemm_tiles.h with tiles in plain memory, for tests on processors without AMX. No
// program links them.
#pragma once

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/quantised_kernels.h"
#ifndef STOA_ISA
#include "ops/cpu/gemm.h"
#endif

namespace stoa::ops::cpu {

STOA_FOR_EACH_ISA(const ProductKernels& emulated_products())
// A processor that is broken: its last row of sums is never stored.
STOA_FOR_EACH_ISA(const ProductKernels& broken_products())

// Products with quantised matrices; null below AVX-512, whose vectors the rest of these kernels needs.
STOA_FOR_EACH_ISA(const QuantisedTiles* emulated_quantised())

#ifndef STOA_ISA
inline MatrixKernels with_emulated_tiles(InstructionSet isa, bool rows_apart = false) {
  MatrixKernels kernels = matrix_kernels(isa, rows_apart);
  kernels.bf16 = &STOA_KERNELS(isa, emulated_products);
  kernels.quantised = STOA_KERNELS(isa, emulated_quantised);
  return kernels;
}
inline MatrixKernels with_broken_tiles(InstructionSet isa) {
  MatrixKernels kernels = matrix_kernels(isa);
  kernels.bf16 = &STOA_KERNELS(isa, broken_products);
  return kernels;
}
#endif

}  // namespace stoa::ops::cpu
