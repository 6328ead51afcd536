#include "ops/cuda/emulation/matmul.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/fp8.h"

namespace stoa::ops::cuda::emulation {

namespace {

float read(const void* data, Element type, std::int64_t i) {
  switch (type) {
    case Element::kBF16:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case Element::kF16:
      return static_cast<float>(static_cast<const f16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void write(void* data, Element type, std::int64_t i, float x) {
  switch (type) {
    case Element::kBF16:
      static_cast<bf16*>(data)[i] = bf16(x);
      return;
    case Element::kF16:
      static_cast<f16*>(data)[i] = f16(x);
      return;
    default:
      static_cast<float*>(data)[i] = x;
  }
}

float read(const void* data, Float8 type, std::int64_t i) {
  return type == Float8::kE4M3 ? static_cast<float>(static_cast<const e4m3*>(data)[i])
                               : static_cast<float>(static_cast<const e5m2*>(data)[i]);
}

// op(X) as rows of the summed dimension: out[i * k + p].
template <class Type>
std::vector<float> operand(const void* data, Type type, std::int64_t ld, bool summed_first,
                           std::int64_t count, std::int64_t k) {
  std::vector<float> out(static_cast<std::size_t>(count * k));
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      out[i * k + p] = read(data, type, summed_first ? i * ld + p : p * ld + i);
  return out;
}

}  // namespace

void HostMatmul::run(const char* op, const Matmul& x, void*, void* workspace) {
  require<InternalError>(x.m > 0 && x.n > 0 && x.k > 0, "{}: a product of {} x {} x {}", op, x.m, x.n, x.k);
  require<InternalError>(workspace && reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0,
                         "{}: workspace at {}", op, workspace);
  require<InternalError>(
      x.lda >= (x.transpose_a ? x.k : x.m) && x.ldb >= (x.transpose_b ? x.n : x.k) && x.ldd >= x.m,
      "{}: leading dimensions {}, {}, {} of a product of {} x {} x {}", op, x.lda, x.ldb, x.ldd, x.m, x.n,
      x.k);
  // Columns of A are contiguous: element (i, p) of op(A) is at p * lda + i, transposed at i * lda + p.
  // What the library demands of 8-bit operands.
  require<InternalError>(
      !x.scaled || (x.transpose_a && !x.transpose_b && x.k % 16 == 0 && x.m % 16 == 0 && x.lda % 16 == 0 &&
                    x.ldb % 16 == 0 && !(x.scaled->a == Float8::kE5M2 && x.scaled->b == Float8::kE5M2)),
      "{}: a product of 8-bit operands of {} x {} x {}", op, x.m, x.n, x.k);
  const auto a = x.scaled ? operand(x.a, x.scaled->a, x.lda, true, x.m, x.k)
                          : operand(x.a, x.operands, x.lda, x.transpose_a, x.m, x.k);
  const auto b = x.scaled ? operand(x.b, x.scaled->b, x.ldb, true, x.n, x.k)
                          : operand(x.b, x.operands, x.ldb, !x.transpose_b, x.n, x.k);
  const float factor = x.scaled ? *x.scaled->a_factor * *x.scaled->b_factor : 1.0f;
  const auto finish = [&](std::int64_t i, std::int64_t j, double sum) {
    auto out = static_cast<float>(sum) * factor;
    if (x.beta != 0) out += x.beta * read(x.d, x.result, j * x.ldd + i);
    if (x.bias) out += read(x.bias, x.bias_type(), i);
    write(x.d, x.result, j * x.ldd + i, out);
  };
  // Several sums side by side: additions of one wait for each other.
  constexpr std::int64_t kSums = 4;
  for (std::int64_t j = 0; j < x.n; ++j) {
    const float* column = &b[j * x.k];
    for (std::int64_t i = 0; i < x.m; i += kSums) {
      const std::int64_t sums = std::min(kSums, x.m - i);
      const float* rows[kSums];
      for (std::int64_t s = 0; s < kSums; ++s) rows[s] = &a[(i + std::min(s, sums - 1)) * x.k];
      double sum[kSums] = {};
      for (std::int64_t p = 0; p < x.k; ++p)
        for (std::int64_t s = 0; s < kSums; ++s)
          sum[s] += static_cast<double>(rows[s][p]) * static_cast<double>(column[p]);
      for (std::int64_t s = 0; s < sums; ++s) finish(i + s, j, sum[s]);
    }
  }
}

}  // namespace stoa::ops::cuda::emulation
