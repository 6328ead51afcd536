#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/rows.h"
#include "ops/cuda/kernels/unit.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;  // the most threads; a block has one row of the result

template <class Unit>
struct CopyRowsKernel {
  using Args = CopyRowsArgs;
  static constexpr const char* kName = "copy rows";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x(), from = a.index ? a.index[row] / a.share : row;
    const Unit* x = static_cast<const Unit*>(a.x) + from * a.x_stride;
    Unit* y = static_cast<Unit*>(a.y) + row * a.y_stride;
    for (std::int64_t i = t.index(); i < a.columns; i += t.count()) copy_unit(x + i, y + i);
  }
};

template <class T, int V>
struct SumRowsKernel {
  using Args = ExpertRowsArgs;
  static constexpr const char* kName = "sum rows";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x();
    for (std::int64_t i = std::int64_t{t.index()} * V; i < a.columns; i += std::int64_t{t.count()} * V) {
      float sum[V];
      STOA_UNROLL
      for (int v = 0; v < V; ++v) sum[v] = 0;
      for (std::int64_t j = 0; j < a.k; ++j) {
        float x[V];
        load_pack<V>(static_cast<const T*>(a.x) + a.index[row * a.k + j] * a.columns + i, x);
        STOA_UNROLL
        for (int v = 0; v < V; ++v) sum[v] += x[v];
      }
      store_pack<V>(static_cast<T*>(a.y) + row * a.columns + i, sum);
    }
  }
};

template <class T, int V, bool kBackward>
struct ScaleRowsKernel {
  using Args = ExpertRowsArgs;
  static constexpr const char* kName = kBackward ? "scale rows backward" : "scale rows";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t begin = t.block_x() * a.columns;
    const std::int64_t assignment = a.index[t.block_x()];
    const float weight = a.weights[assignment];
    float sum = 0;
    for (std::int64_t i = std::int64_t{t.index()} * V; i < a.columns; i += std::int64_t{t.count()} * V) {
      float y[V];
      if constexpr (kBackward) {
        float x[V];
        load_pack<V>(static_cast<const T*>(a.dy) + begin + i, y);
        load_pack<V>(static_cast<const T*>(a.x) + begin + i, x);
        STOA_UNROLL
        for (int v = 0; v < V; ++v) sum = fmaf(y[v], x[v], sum);
      } else {
        load_pack<V>(static_cast<const T*>(a.x) + begin + i, y);
      }
      STOA_UNROLL
      for (int v = 0; v < V; ++v) y[v] *= weight;
      store_pack<V>(static_cast<T*>(a.y) + begin + i, y);
    }
    if constexpr (kBackward) {
      sum = block_reduce<Add>(t, sum, t.shared<float>());
      if (t.index() == 0) a.dweights[assignment] = sum;
    }
  }
};

Grid grid_of(const ExpertRowsArgs& a) {
  return {.x = a.rows,
          .threads = round_up_warps(a.wide ? a.columns / 8 : a.columns, kBlock),
          .shared = kBlock / 32 * sizeof(float)};
}

template <bool kBackward>
void launch_scale(const ExpertRowsArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      launch<ScaleRowsKernel<decltype(type), decltype(v)::value, kBackward>>(grid_of(a), stream, a);
    });
  });
}

}  // namespace

void launch_copy_rows(const CopyRowsArgs& a, void* stream) {
  with_unit(a.unit, [&](auto unit) {
    launch<CopyRowsKernel<decltype(unit)>>({.x = a.rows, .threads = round_up_warps(a.columns, kBlock)},
                                           stream, a);
  });
}

void launch_sum_rows(const ExpertRowsArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      launch<SumRowsKernel<decltype(type), decltype(v)::value>>(grid_of(a), stream, a);
    });
  });
}

void launch_scale_rows(const ExpertRowsArgs& a, void* stream) { launch_scale<false>(a, stream); }
void launch_scale_rows_backward(const ExpertRowsArgs& a, void* stream) { launch_scale<true>(a, stream); }

}  // namespace stoa::ops::cuda
