// Matrix products as the library for them takes them: column-major, D = op(A) op(B) + beta D (+ bias per row
// of D).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/fp8.h"
#include "ops/fp8.h"
#include "ops/linear.h"

namespace stoa::ops::cuda {

struct Matmul {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  Element operands = Element::kF32, result = Element::kF32;
  // 8-bit operands instead of `operands`, and the factors of them in device memory. transpose_a is true,
  // transpose_b false: there are no others. A bias is of 16 bits then, of bf16 where the result is fp32.
  struct Scaled {
    Float8 a, b;
    const float *a_factor, *b_factor;
    bool fast;  // sums may be kept in fewer bits than fp32
  };
  std::optional<Scaled> scaled;
  std::int64_t lda = 0, ldb = 0, ldd = 0;  // elements between columns in memory
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;  // [m] of bias_type(), or null
  float beta = 0;              // 0 or 1

  Element bias_type() const { return scaled && result == Element::kF32 ? Element::kBF16 : result; }
};

// Row-major Y[T, N] = X[T, K] W[N, K]^T is, column by column, Y^T[N, T] = W X^T with W stored as [K, N]: m =
// N, n = T.
Matmul matmul_of(const LinearForward& op);         // without the bias
Matmul matmul_of(const LinearBackwardInput& op);   // dX^T[K, T] = W^T dY^T
Matmul matmul_of(const LinearBackwardWeight& op);  // dW^T[K, N] = X^T dY
Matmul matmul_of(const ScaledProduct& op);         // without the bias

class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  // Workspace of any product, in bytes, aligned to 256.
  virtual std::size_t workspace_bytes() const = 0;
  // m, n and k are above 0. Products are summed in fp32. `op`: for errors.
  virtual void run(const char* op, const Matmul& matmul, void* stream, void* workspace) = 0;
};

}  // namespace stoa::ops::cuda
