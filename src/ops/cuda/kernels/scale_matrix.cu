#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/scale_matrix.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kScaleThreads = 256;

template <class T>
STOA_DEVICE const T* x_row(const ScaleMatrixArgs& a, std::int64_t row) {
  return static_cast<const T*>(a.x) + row * a.x_stride;
}
template <class T>
STOA_DEVICE T* y_row(const ScaleMatrixArgs& a, std::int64_t row) {
  return static_cast<T*>(a.y) + row * a.y_stride;
}

// A block has a row.
template <class T>
struct ScaleMatrixKernel {
  using Args = ScaleMatrixArgs;
  static constexpr const char* kName = "scale matrix";
  static constexpr int kThreads = kScaleThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x();
    const T* x = x_row<T>(a, row);
    T* y = y_row<T>(a, row);
    const float row_factor = a.row_factors ? a.row_factors[row] : 1.0f;
    for (std::int64_t c = t.index(); c < a.columns; c += t.count()) {
      float value = (a.column_factors ? row_factor * a.column_factors[c] : row_factor) * widen(x[c]);
      if (a.bias) value += a.bias[c];
      if (a.accumulate) value += widen(y[c]);
      narrow(value, y[c]);
    }
  }
};

// A block has 32 columns, its warps every eighth row. In fp64, as on the CPU: there may be many rows.
template <class T>
struct ColumnDotsKernel {
  using Args = ScaleMatrixArgs;
  static constexpr const char* kName = "scale matrix backward";
  static constexpr int kThreads = kScaleThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t c = t.block_x() * 32 + t.lane();
    double sum = 0;
    if (c < a.columns)
      for (std::int64_t r = t.warp(); r < a.rows; r += t.warps())
        sum += static_cast<double>(widen(x_row<T>(a, r)[c])) * static_cast<double>(widen(y_row<T>(a, r)[c]));
    double* sums = t.shared<double>();
    sums[t.index()] = sum;
    t.sync();
    if (t.warp() > 0 || c >= a.columns) return;
    for (int w = 1; w < t.warps(); ++w) sum += sums[w * 32 + t.lane()];
    a.out[c] = static_cast<float>(a.accumulate ? sum + static_cast<double>(a.out[c]) : sum);
  }
};

// A block has a row.
template <class T>
struct RowDotsKernel {
  using Args = ScaleMatrixArgs;
  static constexpr const char* kName = "row dots";
  static constexpr int kThreads = kScaleThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x();
    const T *x = x_row<T>(a, row), *y = y_row<T>(a, row);
    double sum = 0;
    for (std::int64_t c = t.index(); c < a.columns; c += t.count())
      sum += static_cast<double>(widen(x[c])) * static_cast<double>(widen(y[c]));
    sum = block_reduce<Add>(t, sum, t.shared<double>());
    if (t.index() == 0)
      a.out[row] = static_cast<float>(a.accumulate ? sum + static_cast<double>(a.out[row]) : sum);
  }
};

struct InverseRootKernel {
  using Args = InverseRootArgs;
  static constexpr const char* kName = "inverse root";
  static constexpr int kThreads = kScaleThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * kThreads + t.index();
    if (i < a.count) a.y[i] = a.x[i] > 0 ? reciprocal_root(a.x[i]) : 0.0f;
  }
};

Grid row_grid(const ScaleMatrixArgs& a) {
  return {.x = a.rows,
          .threads = round_up_warps(a.columns, kScaleThreads),
          .shared = kScaleThreads / 32 * sizeof(double)};
}

}  // namespace

void launch_scale_matrix(const ScaleMatrixArgs& a, void* stream) {
  with_fast_type(a.type,
                 [&](auto type) { launch<ScaleMatrixKernel<decltype(type)>>(row_grid(a), stream, a); });
}

void launch_column_dots(const ScaleMatrixArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<ColumnDotsKernel<decltype(type)>>({.x = ceil_div(a.columns, std::int64_t{32}),
                                              .threads = kScaleThreads,
                                              .shared = kScaleThreads * sizeof(double)},
                                             stream, a);
  });
}

void launch_row_dots(const ScaleMatrixArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) { launch<RowDotsKernel<decltype(type)>>(row_grid(a), stream, a); });
}

void launch_inverse_root(const InverseRootArgs& a, void* stream) {
  launch<InverseRootKernel>({.x = ceil_div(a.count, std::int64_t{kScaleThreads}), .threads = kScaleThreads},
                            stream, a);
}

}  // namespace stoa::ops::cuda
