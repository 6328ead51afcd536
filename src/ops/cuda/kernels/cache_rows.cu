#include "ops/cuda/kernels/cache_numbers.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block has the heads of one token.
template <class T, class Kept, int V>
struct ScatterRowsKernel {
  using Args = ScatterRowsArgs;
  static constexpr const char* kName = "scatter rows";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x(), columns = a.heads * a.d;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    Kept* y = static_cast<Kept*>(a.y) + a.index[row] * columns;
    for (std::int64_t i = std::int64_t{t.index()} * V; i < columns; i += std::int64_t{t.count()} * V) {
      float numbers[V];
      load_pack<V>(x + i, numbers);
      STOA_UNROLL
      for (int v = 0; v < V; ++v) numbers[v] = within_range<Kept>(numbers[v]);
      store_pack<V>(y + i, numbers);
    }
  }
};

// A warp has neighbours with one scale.
template <class T>
struct ScatterCodesKernel {
  using Args = ScatterRowsArgs;
  static constexpr const char* kName = "scatter rows as codes";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x(), pieces = (a.d + kCacheColumns - 1) / kCacheColumns;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    auto* y = static_cast<std::uint8_t*>(a.y) + a.index[row] * a.heads * a.width;
    for (std::int64_t n = t.warp(); n < a.heads * pieces; n += t.warps()) {
      const std::int64_t head = n / pieces, piece = n - head * pieces, i = piece * kCacheColumns + t.lane();
      const CacheCode kept = encode(t, i < a.d ? static_cast<float>(widen(x[head * a.d + i])) : 0.0f);
      std::uint8_t* to = y + head * a.width;
      if (i < a.d) to[i] = static_cast<std::uint8_t>(kept.code);
      if (t.lane() < 2)
        to[a.d + 2 * piece + t.lane()] = static_cast<std::uint8_t>(kept.scale >> (8 * t.lane()));
    }
  }
};

template <class T, class Kept>
void launch_scatter(const ScatterRowsArgs& a, void* stream) {
  const std::int64_t columns = a.heads * a.d;
  with_width(a.wide, [&](auto v) {
    constexpr int kWidth = decltype(v)::value;
    launch<ScatterRowsKernel<T, Kept, kWidth>>(
        {.x = a.rows, .threads = round_up_warps(columns / kWidth, 256)}, stream, a);
  });
}

}  // namespace

void launch_scatter_rows(const ScatterRowsArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    using T = decltype(type);
    switch (a.form) {
      case CacheForm::kF32:
        return launch_scatter<float, float>(a, stream);  // goes with fp32 alone
      case CacheForm::kBF16:
        return launch_scatter<T, bf16>(a, stream);
      case CacheForm::kF16:
        return launch_scatter<T, f16>(a, stream);
      case CacheForm::kCodes: {
        const std::int64_t pieces = a.heads * ((a.d + kCacheColumns - 1) / kCacheColumns);
        return launch<ScatterCodesKernel<T>>({.x = a.rows, .threads = round_up_warps(32 * pieces, 256)},
                                             stream, a);
      }
    }
  });
}

}  // namespace stoa::ops::cuda
