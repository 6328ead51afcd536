// Matrix products: packing, cache blocking and the division of work. The inner loops are in gemm_kernels.h.
//
// Sums run over fixed blocks of the reduction, so a result depends on shape, types and instruction set alone:
// not on the number of workers, nor on how the output is cut.
#pragma once

#include <cstddef>

#include "base/worker_pool.h"
#include "ops/cpu/instruction_set.h"
#include "quant/unpack_rows.h"
#include "tensor/tensor_view.h"

namespace stoa::ops::cpu {

struct GemmKernels;
struct ProductKernels;
struct QuantisedTiles;

// The kernels that products are made of.
struct MatrixKernels {
  const GemmKernels* vectors = nullptr;
  const ProductKernels* bf16 = nullptr;  // of bf16 operands; null: they are converted to fp32
  // A row of a product with W [n, r] has the same bits however many rows there are: either all products are
  // streamed, or sums have one order in all kernels (ProductKernels::stream).
  bool rows_apart = false;
  const QuantisedTiles* quantised = nullptr;  // products with quantised matrices on tiles; null: on vectors
  const quant::RowKernels* rows = &quant::plain_row_kernels();  // unpack packed matrices
};
MatrixKernels matrix_kernels(InstructionSet isa, bool rows_apart = false);

// An operand seen as [rows, reduction].
struct GemmOperand {
  TensorView matrix;
  bool transposed = false;  // memory holds [reduction, rows]
  // Of B: its memory is that of a packed matrix, whose numbers are of the type of `matrix`. Null: it is not.
  const quant::PackedShape* packed = nullptr;
  std::int64_t rows() const { return matrix.shape[transposed ? 1 : 0]; }
  std::int64_t reduction() const { return matrix.shape[transposed ? 0 : 1]; }
};

// out[m, n] = sum over r of a[m, r] b[n, r] + bias[n], or out += that. a and b share one type of fp32, bf16,
// fp16; out has that type or fp32. `continues`: out, fp32, has a sum to which these products are added one
// after the other, as if the reductions were one (cut at a multiple of ops::kRowsTogether). a2 [m, r2] and
// b2 [n, r2], where they are given: a second product of the same type in the same sums, after the first; its
// reduction is short.
struct Gemm {
  GemmOperand a, b;
  TensorView bias;  // fp32 [n], or none
  TensorView out;   // [m, n]
  bool accumulate = false;
  bool continues = false;
  GemmOperand a2 = {}, b2 = {};
  bool out_turned = false;  // out is [n, m]: of what with_few_rows() makes (ops/cpu/gemm_plan.h)
  std::int64_t second_reduction() const { return a2.matrix ? a2.reduction() : 0; }
};

std::size_t workspace_bytes(const Gemm& gemm, const MatrixKernels& kernels, int workers);
// Enough for this GEMM and for any with fewer rows of A, or with a shorter reduction: how many rows each
// expert gets is not known in advance.
std::size_t workspace_bytes_of_any_rows(const Gemm& gemm, const MatrixKernels& kernels, int workers);
std::size_t workspace_bytes_of_any_reduction(const Gemm& gemm, const MatrixKernels& kernels, int workers);
void run(const Gemm& gemm, const MatrixKernels& kernels, WorkerPool& pool, void* workspace);

// out[n] = sum over rows of source[row, n], or out += that.
void column_sums(const TensorView& source, const TensorView& out, bool accumulate, InstructionSet isa,
                 WorkerPool& pool);

}  // namespace stoa::ops::cpu
