#include "ops/cpu/eight_bit_gemm.h"

#include "device/arena.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kRowsAtOnce = 256, kColumnsAtOnce = 1024;

void widen(const TensorView& x, const TensorView& y, WorkerPool& pool) {
  dispatch_fp8(x.dtype, [&]<class T>() {
    bf16 table[256];
    for (unsigned i = 0; i < 256; ++i) {
      T code;
      code.bits = static_cast<std::uint8_t>(i);
      table[i] = bf16(static_cast<float>(code));  // exact
    }
    const std::int64_t columns = x.shape[1];
    run_pieces(pool, x.shape[0], rows_per_task(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* from = x.row<T>(r);
        bf16* to = y.row<bf16>(r);
        for (std::int64_t c = 0; c < columns; ++c) to[c] = table[from[c].bits];
      }
    });
  });
}

GemmOperand rows_of_operand(const GemmOperand& operand, std::int64_t begin, std::int64_t count) {
  return {operand.transposed ? operand.matrix.columns(begin, count) : operand.matrix.slice(begin, count),
          operand.transposed};
}

// A part of an FP8 GEMM, and what it takes of the workspace: its operands in bf16, its sums.
struct Widened {
  Gemm gemm;
  std::byte* rest = nullptr;  // for the product of the operands
  std::size_t bytes = 0;

  // The same place for b whatever `rows` is.
  Widened(const Gemm& of, std::int64_t rows, std::int64_t columns, void* workspace)
      : rest(static_cast<std::byte*>(workspace)) {
    gemm.b = taken(of.b, columns);
    gemm.a = taken(of.a, rows);
    gemm.out = take(DType::kF32, {rows, columns});
  }

 private:
  TensorView take(DType type, const Shape& shape) {
    const TensorView out(rest, type, shape);
    const std::size_t more = aligned_bytes(out.bytes());
    if (rest) rest += more;
    bytes += more;
    return out;
  }
  GemmOperand taken(const GemmOperand& of, std::int64_t rows) {
    const std::int64_t length = of.reduction();
    return {take(DType::kBF16, of.transposed ? Shape{length, rows} : Shape{rows, length}), of.transposed};
  }
};

// out = sums scale + bias, or out += sums scale.
template <class T>
void finish_rows(const Gemm& of, const TensorView& sums, float scale, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = of.out.shape[1];
  const float* bias = of.bias ? of.bias.as<float>() : nullptr;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* sum = sums.row<float>(r);
    T* out = of.out.row<T>(r);
    for (std::int64_t c = 0; c < columns; ++c) {
      const float more = of.accumulate ? static_cast<float>(out[c]) : bias ? bias[c] : 0.0f;
      out[c] = T(sum[c] * scale + more);
    }
  }
}

// `bytes_of`: of a part's product in bf16.
template <class BytesOf>
std::size_t most_of_parts(const Gemm& gemm, const BytesOf& bytes_of) {
  const std::int64_t rows = gemm.a.rows(), columns = gemm.b.rows();
  std::size_t most = 0;
  for (const std::int64_t height : {std::min(kRowsAtOnce, rows), rows % kRowsAtOnce})
    for (const std::int64_t width : {std::min(kColumnsAtOnce, columns), columns % kColumnsAtOnce}) {
      const Widened part(gemm, height, width, nullptr);
      most = std::max(most, part.bytes + bytes_of(part.gemm));
    }
  return most;
}

}  // namespace

void run_eight_bits(const Gemm& gemm, float scale, const MatrixKernels& kernels, WorkerPool& pool,
                    void* workspace) {
  const std::int64_t rows = gemm.a.rows(), columns = gemm.b.rows();
  for (std::int64_t n = 0; n < columns; n += kColumnsAtOnce) {
    const std::int64_t width = std::min(kColumnsAtOnce, columns - n);
    for (std::int64_t m = 0; m < rows; m += kRowsAtOnce) {
      const std::int64_t height = std::min(kRowsAtOnce, rows - m);
      const Widened wide(gemm, height, width, workspace);
      if (m == 0) widen(rows_of_operand(gemm.b, n, width).matrix, wide.gemm.b.matrix, pool);
      widen(rows_of_operand(gemm.a, m, height).matrix, wide.gemm.a.matrix, pool);
      run(wide.gemm, kernels, pool, wide.rest);
      Gemm part = gemm;
      part.out = gemm.out.slice(m, height).columns(n, width);
      if (gemm.bias) part.bias = gemm.bias.slice(n, width);
      with_float(gemm.out.dtype, [&]<class T>() {
        run_pieces(pool, height, rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
          finish_rows<T>(part, wide.gemm.out, scale, begin, end);
        });
      });
    }
  }
}

std::size_t workspace_bytes_of_eight_bits_any_rows(const Gemm& gemm, const MatrixKernels& kernels,
                                                   int workers) {
  return most_of_parts(gemm,
                       [&](const Gemm& part) { return workspace_bytes_of_any_rows(part, kernels, workers); });
}

std::size_t workspace_bytes_of_eight_bits_any_reduction(const Gemm& gemm, const MatrixKernels& kernels,
                                                        int workers) {
  return most_of_parts(
      gemm, [&](const Gemm& part) { return workspace_bytes_of_any_reduction(part, kernels, workers); });
}

}  // namespace stoa::ops::cpu
