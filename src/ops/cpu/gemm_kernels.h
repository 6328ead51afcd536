// The inner loops of matrix products, one table per instruction set. gemm.h drives them.
//
// C[m, n] = sum over r of A[m, r] * B[n, r]. Both operands are packed into panels of 32-bit units: a unit is
// a float, or (with bf16 dot products) a pair of bf16 neighbours along r. A panel holds `width` rows of its
// operand: unit u of row i is at panel[u * width + i]; missing rows and the missing half of a last pair are
// zero.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_table.h"

namespace stoa::ops::cpu {

enum class Element : std::uint8_t { kF32, kBF16, kF16 };

struct PackJob {
  const void* source;   // element (0, 0) of the operand
  std::int64_t stride;  // elements between rows in memory
  Element element;
  bool rows_contiguous;  // memory rows run along the reduction (A[m, r] at m * stride + r), else A[m, r] is
                         // at r * stride + m
  bool pairs;            // unit: bf16 pair, else float
  std::int64_t first, end;    // rows of the operand to pack: ceil((end - first) / width) panels
  std::int64_t begin;         // first reduction index
  std::int64_t count;         // reduction indices
  std::int64_t panel_stride;  // units between panels
  std::uint32_t* panels;
};

// What becomes of a finished tile: out = (accumulate ? out : 0) + (sum + bias), converted once.
struct StoreJob {
  std::int64_t rows, columns;  // of the tile that exist
  void* out;
  std::int64_t out_stride;
  Element element;
  const float* bias;  // or null
  bool accumulate;
};

// out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] for few tokens: streams rows [first, end) of w once.
struct StreamJob {
  const void* x;
  std::int64_t x_stride;
  const void* w;
  std::int64_t w_stride;
  std::int64_t tokens, inputs;
  std::int64_t first, end;
  Element element;    // of x and w
  const float* bias;  // or null
  void* out;
  std::int64_t out_stride;
  Element out_element;
};

struct ColumnSumJob {
  const void* source;
  std::int64_t stride, rows;
  std::int64_t first, end;  // columns
  Element element;
  float* out;
  bool accumulate;
};

struct GemmKernels {
  int rows, columns;  // of a register tile: the widths of A's and B's panels
  int vector;         // columns per vector
  int block;   // units of the reduction after which sums go to memory: a B panel of it stays in the L1 cache
  bool pairs;  // has bf16 dot products
  void (*pack_a)(const PackJob&);
  void (*pack_b)(const PackJob&);
  // sums[rows, columns] = (first ? 0 : sums) + panel a * panel b over `units`; the last block goes to `store`
  // instead. Works on `vectors` vectors of columns, 1 <= vectors <= columns / vector.
  using Tile = void (*)(std::int64_t units, const std::uint32_t* a, const std::uint32_t* b, float* sums,
                        std::int64_t stride, int vectors, bool first, const StoreJob* store);
  Tile tile_f32, tile_pairs;
  // Multiply-adds in registers, rows x columns units per round: nothing is faster.
  float (*spin_pairs)(std::int64_t rounds);
  void (*stream)(const StreamJob&);
  int stream_tokens;  // most tokens that stream() takes
  void (*column_sums)(const ColumnSumJob&);
  float (*spin_f32)(std::int64_t rounds);
  float (*read_sum)(const float* p, std::int64_t n);  // reads n floats once, as fast as memory gives them
};

STOA_FOR_EACH_ISA(const GemmKernels& gemm_kernels())

}  // namespace stoa::ops::cpu
