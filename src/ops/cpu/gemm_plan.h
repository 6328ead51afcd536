// How a matrix product is cut into slices, blocks and tasks, and what workspace that takes.
#pragma once

#include <algorithm>

#include "base/rounding.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_kernels.h"

namespace stoa::ops::cpu {

constexpr std::int64_t kPackColumns = 8,
                       kPackUnits = 256;  // panels and units of B that a packing task handles

// A function of shapes, types, instruction set and number of workers; rows_in_place also of where A begins.
struct Plan {
  const ProductKernels* kernels;
  bool stream;         // W is read without packing it
  bool packed_tokens;  // streamed by kernels->stream, which takes packed tokens; else by vectors->stream
  bool ahead;          // B is packed by all before it is used; else each task packs what it uses
  bool rows_in_place;  // whole panels of A are read where they lie
  bool across;         // such a task goes through all its columns before the next units: B is [reduction, n]
  std::int64_t m, n, r;
  std::int64_t second_units;  // of the second product's reduction, behind the last slice
  std::int64_t block;         // units of the reduction that a tile sums before it goes to memory
  std::int64_t slice;         // reduction elements per slice, a multiple of the block
  std::int64_t slices;
  std::int64_t slice_units;     // units of a full slice
  std::int64_t row_blocks;      // tasks along m
  std::int64_t block_rows;      // most rows of a row block, a multiple of the tile
  std::int64_t shared_columns;  // columns of B packed ahead, a multiple of the panel
  std::int64_t column_blocks;   // tasks along n, of shared_columns when ahead, else of n
  // workspace
  std::size_t shared_b, shared_a, sums, worker_a, worker_holds, worker_b, worker_sums, worker_numbers,
      per_worker, total;
};

inline std::int64_t units_of(std::int64_t reduction, const ProductKernels& k) {
  return round_up(std::max<std::int64_t>(1, ceil_div(reduction, k.pairs ? 2 : 1)), k.group);
}

// Products with few columns, as those of low-rank branches, as products with few rows: the long operand is
// then read where it lies, or packed without turning it. Sums have the same bits.
Gemm with_few_rows(const Gemm& gemm, const MatrixKernels& kernels);

// Takes a product that went through with_few_rows().
Plan plan_of(const Gemm& gemm, const MatrixKernels& kernels, int workers);

}  // namespace stoa::ops::cpu
