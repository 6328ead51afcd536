// Loops that the compiler turns into vectors: all of them read a matrix once, next to products that read it
// more often. A norm has too few elements to be worth more than the reference.
#include <algorithm>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

// In 16 lanes, added up in order; in fp64, since a norm has as many terms as the layer has inputs.
template <class T>
double row_dot(const T* a, const T* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  double lanes[kLanes] = {}, sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[l] += static_cast<double>(static_cast<float>(a[i + l])) * static_cast<float>(b[i + l]);
  for (; i < count; ++i) sum += static_cast<double>(static_cast<float>(a[i])) * static_cast<float>(b[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void CpuBackend::execute(const ScaleMatrix& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t width = op.x.shape[1];
  const float* const rows = op.rows ? op.rows.as<float>() : nullptr;
  const float* const columns = op.columns ? op.columns.as<float>() : nullptr;
  const float* const bias = op.bias ? op.bias.as<float>() : nullptr;
  with_float(op.x.dtype, [&]<class T>() {
    run_pieces(pool_, op.x.rows(), rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* const x = op.x.row<T>(r);
        T* const y = op.y.row<T>(r);
        const float row = rows ? rows[r] : 1;
        for (std::int64_t c = 0; c < width; ++c) {
          const float factor = columns ? row * columns[c] : row;
          float value = factor * static_cast<float>(x[c]);
          if (bias) value += bias[c];
          if (op.accumulate) value += static_cast<float>(y[c]);
          y[c] = T(value);
        }
      }
    });
  });
}

void CpuBackend::execute(const ScaleMatrixBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  constexpr std::int64_t kColumns = 64;
  auto* const out = op.dcolumns.as<float>();
  with_float(op.x.dtype, [&]<class T>() {
    run_pieces(pool_, op.x.shape[1], kColumns, [&](std::int64_t begin, std::int64_t end) {
      double sums[kColumns] = {};
      for (std::int64_t r = 0; r < op.x.rows(); ++r) {
        const T *const x = op.x.row<T>(r) + begin, *const dy = op.dy.row<T>(r) + begin;
        for (std::int64_t c = 0; c < end - begin; ++c)
          sums[c] += static_cast<double>(static_cast<float>(x[c])) * static_cast<float>(dy[c]);
      }
      for (std::int64_t c = begin; c < end; ++c)
        out[c] = static_cast<float>(sums[c - begin] + (op.accumulate ? out[c] : 0.0F));
    });
  });
}

void CpuBackend::execute(const RowDots& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t width = op.x.shape[1];
  auto* const out = op.out.as<float>();
  with_float(op.x.dtype, [&]<class T>() {
    run_pieces(pool_, op.x.rows(), rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        out[r] = static_cast<float>(row_dot(op.x.row<T>(r), op.y.row<T>(r), width) +
                                    (op.accumulate ? out[r] : 0.0F));
    });
  });
}

}  // namespace stoa::ops::cpu
