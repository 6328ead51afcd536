#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/random.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;

template <class X, class Y, class Other, int V>
struct MapKernel {
  using Args = MapArgs;
  static constexpr const char* kName = "map";
  static constexpr int kThreads = kBlock;

  template <int W>
  STOA_DEVICE static void piece(const Args& a, std::int64_t i) {
    auto* y = static_cast<Y*>(a.y) + i;
    float x[W];
    load_pack<W>(static_cast<const X*>(a.x) + i, x);
    if (a.kind == MapKind::kAdd) {
      float old[W];
      load_pack<W>(y, old);
      STOA_UNROLL
      for (int j = 0; j < W; ++j) x[j] += old[j];
    } else if (a.kind == MapKind::kCombine) {
      float old[W];
      load_pack<W>(y, old);
      STOA_UNROLL
      for (int j = 0; j < W; ++j) x[j] = a.a * x[j] + a.b * old[j];
    } else if (a.kind == MapKind::kResidual) {
      float other[W];
      load_pack<W>(static_cast<const Other*>(a.other) + i, other);
      apply_dropout<W>(a.dropout, i, other);
      STOA_UNROLL
      for (int j = 0; j < W; ++j) x[j] += other[j];
    } else if (a.kind == MapKind::kDropout) {
      apply_dropout<W>(a.dropout, i, x);
    }
    store_pack<W>(y, x);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = (t.block_x() * kBlock + t.index()) * V;
    if (i + V <= a.count) {
      piece<V>(a, i);
    } else {
      for (std::int64_t j = i; j < a.count; ++j) piece<1>(a, j);
    }
  }
};

template <class X, class Y, class Other>
void launch_typed(const MapArgs& a, void* stream) {
  with_width(a.wide, [&](auto width) {
    constexpr int kV = decltype(width)::value;
    launch<MapKernel<X, Y, Other, kV>>({.x = ceil_div(a.count, std::int64_t{kBlock} * kV), .threads = kBlock},
                                       stream, a);
  });
}

template <class X, class Y>
struct CastKernel {
  using Args = MapArgs;
  static constexpr const char* kName = "cast of fp64";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * kBlock + t.index();
    if (i >= a.count) return;
    const double x = static_cast<double>(widen(static_cast<const X*>(a.x)[i]));
    Y& y = static_cast<Y*>(a.y)[i];
    if constexpr (sizeof(Y) == 8) {
      y = x;
    } else {
      auto f = static_cast<float>(x);
      // Towards odd, so that a second rounding to 16 bits equals rounding once.
      if (sizeof(Y) == 2 && x == x && static_cast<double>(f) != x) {
        std::uint32_t bits = bits_of(f);
        if ((static_cast<double>(f) > x) == (f > 0)) --bits;
        f = float_of(bits | 1u);
      }
      narrow(f, y);
    }
  }
};

struct FillKernel {
  struct Args {
    unsigned char* data;
    std::int64_t bytes, lead;  // bytes before the first multiple of 16
  };
  static constexpr const char* kName = "fill zero";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * kBlock + t.index();
    if (i < a.lead) a.data[i] = 0;
    const std::int64_t at = a.lead + i * 16;
    if (at + 16 <= a.bytes) {
      store16(a.data + at, Bytes16{});
    } else {
      for (std::int64_t j = at; j < a.bytes; ++j) a.data[j] = 0;
    }
  }
};

template <class T>
struct FillRowsKernel {
  struct Args {
    Rows rows;
    std::int64_t count;
  };
  static constexpr const char* kName = "fill rows";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    T* row = row_of<T>(a.rows, t.block_x());
    for (std::int64_t i = t.index(); i < a.rows.columns; i += t.count()) narrow(0.0f, row[i]);
  }
};

}  // namespace

void launch_map(const MapArgs& a, void* stream) {
  with_fast_type(a.x_type, [&](auto x) {
    using X = decltype(x);
    if (a.kind == MapKind::kResidual) {  // y is as x
      with_fast_type(a.other_type, [&](auto other) { launch_typed<X, X, decltype(other)>(a, stream); });
    } else {
      with_fast_type(a.y_type, [&](auto y) { launch_typed<X, decltype(y), float>(a, stream); });
    }
  });
}

void launch_cast_exact(const MapArgs& a, void* stream) {
  const Grid grid{.x = ceil_div(a.count, kBlock), .threads = kBlock};
  if (a.x_type == Element::kF64) {
    with_type(a.y_type, [&](auto y) { launch<CastKernel<double, decltype(y)>>(grid, stream, a); });
  } else {
    with_type(a.x_type, [&](auto x) { launch<CastKernel<decltype(x), double>>(grid, stream, a); });
  }
}

void launch_fill_zero(void* data, std::size_t bytes, void* stream) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto count = static_cast<std::int64_t>(bytes);
  std::int64_t lead = static_cast<std::int64_t>((16 - address % 16) % 16);
  if (lead > count) lead = count;
  const std::int64_t threads = ceil_div(count - lead, 16) > lead ? ceil_div(count - lead, 16) : lead;
  launch<FillKernel>({.x = ceil_div(threads, kBlock), .threads = kBlock}, stream,
                     {static_cast<unsigned char*>(data), count, lead});
}

void launch_fill_rows(const Rows& rows, std::int64_t count, void* stream) {
  with_fast_type(rows.type, [&](auto type) {
    launch<FillRowsKernel<decltype(type)>>({.x = count, .threads = 128}, stream, {rows, count});
  });
}

}  // namespace stoa::ops::cuda
