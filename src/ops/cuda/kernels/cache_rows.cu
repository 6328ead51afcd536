#include "ops/cuda/kernels/cache_numbers.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// Where head 0 of a row of y begins, and the distance between heads.
struct CachePlace {
  std::int64_t first, step;
  STOA_DEVICE CachePlace(const ScatterRowsArgs& a, std::int64_t row) : step(a.block_rows * a.width) {
    const std::int64_t block = row / a.block_rows;
    first = block * a.heads * step + (row - block * a.block_rows) * a.width;
  }
};

// A block has the heads of one token.
template <class T, class Kept, int V>
struct ScatterRowsKernel {
  using Args = ScatterRowsArgs;
  static constexpr const char* kName = "scatter rows";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t row = t.block_x(), columns = a.heads * a.d;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    const CachePlace place(a, a.index[row]);
    Kept* y = static_cast<Kept*>(a.y) + place.first;
    for (std::int64_t i = std::int64_t{t.index()} * V; i < columns; i += std::int64_t{t.count()} * V) {
      const std::int64_t head = i / a.d;
      float numbers[V];
      load_pack<V>(x + i, numbers);
      STOA_UNROLL
      for (int v = 0; v < V; ++v) numbers[v] = within_range<Kept>(numbers[v]);
      store_pack<V>(y + head * place.step + (i - head * a.d), numbers);
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
    const CachePlace place(a, a.index[row]);
    auto* y = static_cast<std::uint8_t*>(a.y) + place.first;
    for (std::int64_t n = t.warp(); n < a.heads * pieces; n += t.warps()) {
      const std::int64_t head = n / pieces, piece = n - head * pieces, i = piece * kCacheColumns + t.lane();
      const CacheCode kept = encode(t, i < a.d ? static_cast<float>(widen(x[head * a.d + i])) : 0.0f);
      std::uint8_t* to = y + head * place.step;
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
