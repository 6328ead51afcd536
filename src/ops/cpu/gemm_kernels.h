// The inner loops of matrix products, one table per instruction set. gemm.h drives them.
//
// C[m, n] = sum over r of A[m, r] * B[n, r]. Both operands are packed into panels of 32-bit units: a unit is
// a float, or (with bf16 dot products) a pair of bf16 neighbours along r. A panel holds `width` rows of its
// operand: unit u of row i is at panel[u * width + i]; missing rows and the missing half of a last pair are
// zero.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct PackJob {
  const void* source;   // element (0, 0) of the operand
  std::int64_t stride;  // elements between rows in memory
  Element element;
  bool rows_contiguous;  // memory rows run along the reduction (A[m, r] at m * stride + r), else A[m, r] is
                         // at r * stride + m
  std::int64_t first, end;    // rows of the operand to pack: ceil((end - first) / width) panels
  std::int64_t begin;         // first reduction index
  std::int64_t count;         // reduction indices
  std::int64_t panel_stride;  // units between panels
  std::uint32_t* panels;
};

// What becomes of a finished tile: out = (accumulate ? out : 0) + (sum + bias), converted once.
struct StoreJob {
  void* out;
  std::int64_t out_stride;
  Element element;
  const float* bias;  // or null
  bool accumulate;
  // Lines of the output are better not brought into the caches: it is larger than they are, and every row
  // begins on a line. Kernels whose panels are whole lines may use it.
  bool past_caches;
  // The output's rows are the tile's columns. Kernels that have turned() know of it.
  bool turned = false;
};

// sums[rows, columns] = (first ? 0 : sums) + panels a * panel b over `units`; the last block goes to `store`
// instead. The panels of A follow each other in memory.
struct TileJob {
  std::int64_t units;
  const std::uint32_t* a;
  std::int64_t a_stride;  // units between panels of A
  std::int64_t a_row;     // units between its rows, which are read where they are; 0: they are packed
  const std::uint32_t* b;
  float* sums;                 // of whole tiles, one below the other
  std::int64_t rows, columns;  // that exist: of all panels of A, of the panel of B
  bool first;
  const StoreJob* store;  // or null
  bool next_b;            // the block of b that follows this one in memory is needed next
};

// out[t, n] = sum_k x[t, k] * w[n, k] + bias[n], for few tokens or many: rows [first, end) of w are read
// where they lie. An output's sum has one order, whatever the number of tokens.
struct StreamJob {
  const void* x;
  std::int64_t x_stride;
  bool x_contiguous = true;  // memory rows of x run along the inputs; of ProductKernels::pack_tokens alone
  const void* w;
  std::int64_t w_stride;
  std::int64_t tokens, inputs;
  std::int64_t first, end;
  std::int64_t fetched = 0;  // rows of w are fetched ahead up to here
  Element element;           // of x and w
  const float* bias;         // or null
  void* out;
  std::int64_t out_stride;
  Element out_element;
  bool turned = false;  // out[n, t]; of ProductKernels::stream alone
};

// Products of one kind of unit.
struct ProductKernels {
  bool pairs;         // a unit is a bf16 pair, else a float
  int rows, columns;  // of a tile: the widths of A's and B's panels
  int group;          // panels are padded with zeros to a multiple of so many units
  int block;  // units of the reduction after which sums go to memory: a B panel of it stays in the L1 cache
  int slice;  // units of the reduction packed at a time
  std::int64_t packed_bytes;  // of A per worker: about half of the L2 cache
  std::int64_t most_rows;     // of A per task
  bool reads_rows = false;    // tiles() also takes whole panels of A that are not packed (a_row)
  void (*pack_a)(const PackJob&);
  void (*pack_b)(const PackJob&);
  void (*tiles)(const TileJob&);
  // Products of few tokens that read w without packing it; a sum has the order that it has in tiles(). Null
  // where the kernels have none. `x`: the tokens, packed by pack_tokens, `panel_tokens` at a time: tokens
  // [first, end) of the job's go to `panel`, with room for panel_tokens.
  void (*stream)(const StreamJob&, const std::uint32_t* x) = nullptr;
  void (*pack_tokens)(const StreamJob&, std::int64_t first, std::int64_t end, std::uint32_t* panel) = nullptr;
  int panel_tokens = 0;
  int stream_rows = 0;    // of w that it reads at once: tasks begin at multiples of it
  int stream_tokens = 0;  // the most for which it is faster than tiles()
  bool turns = false;     // tiles() and stream() write turned outputs, too
  // Called by a thread before its first and after its last tile of a task; null where there is nothing to do.
  void (*enter)();
  void (*leave)();
  // Multiply-adds in registers, spin_flops of them per round: nothing is faster.
  float (*spin)(std::int64_t rounds);
  double spin_flops;
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
  ProductKernels floats;  // of fp32, and of 16-bit elements converted to it
  ProductKernels pairs;   // of bf16; tiles is null where the instruction set has no such products
  void (*stream)(const StreamJob&);
  int stream_tokens;  // up to here nothing is faster than stream()
  void (*column_sums)(const ColumnSumJob&);
  float (*read_sum)(const float* p, std::int64_t n);  // reads n floats once, as fast as memory gives them
};

STOA_FOR_EACH_ISA(const GemmKernels& gemm_kernels())

#if defined(__x86_64__)
// bf16 products on the tiles of AMX; the rest of amx-bf16 is avx512bf16.
namespace avx512bf16 {
const ProductKernels& tile_products();
}
#endif

}  // namespace stoa::ops::cpu
