#include <cmath>

#include "ops/cuda/kernels/activation.h"
#include "ops/cuda/kernels/approximations.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256, kPacks = 2;

struct Point {
  float value, slope;
};

template <ActivationCode kKind>
struct Kind {
  static constexpr ActivationCode value = kKind;
};

// Calls body(Kind) once for many elements. kClampedSwiglu is always gated.
template <bool kGated, class Body>
STOA_DEVICE void with_kind(ActivationCode kind, Body&& body) {
  switch (kind) {
    case ActivationCode::kGelu:
      return body(Kind<ActivationCode::kGelu>{});
    case ActivationCode::kGeluTanh:
      return body(Kind<ActivationCode::kGeluTanh>{});
    case ActivationCode::kQuickGelu:
      return body(Kind<ActivationCode::kQuickGelu>{});
    case ActivationCode::kSilu:
      return body(Kind<ActivationCode::kSilu>{});
    case ActivationCode::kRelu:
      return body(Kind<ActivationCode::kRelu>{});
    case ActivationCode::kSquaredRelu:
      return body(Kind<ActivationCode::kSquaredRelu>{});
    case ActivationCode::kTanh:
      return body(Kind<ActivationCode::kTanh>{});
    case ActivationCode::kSigmoid:
      return body(Kind<ActivationCode::kSigmoid>{});
    case ActivationCode::kClampedSwiglu:
      if constexpr (kGated) return body(Kind<ActivationCode::kClampedSwiglu>{});
  }
}

// Elements have type T. Comparisons are such that NaN stays NaN.
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kGelu>, float x) {
  const float cdf = 0.5f * erfcf(-x * 0.70710678118654752f);
  return {x * cdf, cdf + x * 0.39894228040143268f * exp_for<T>(-0.5f * x * x)};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kGeluTanh>, float x) {
  // 0.5 (1 + tanh u) = sigmoid(2u)
  const float c = 0.79788456080286536f;
  const float s = sigmoid_for<T>(2 * c * (x + 0.044715f * x * x * x));
  return {x * s, s + 2 * x * s * (1 - s) * c * (1 + 3 * 0.044715f * x * x)};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kQuickGelu>, float x) {
  const float s = sigmoid_for<T>(1.702f * x);
  return {x * s, s + 1.702f * x * s * (1 - s)};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kSilu>, float x) {
  const float s = sigmoid_for<T>(x);
  return {x * s, s + x * s * (1 - s)};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kRelu>, float x) {
  return x <= 0 ? Point{0, 0} : Point{x, x == x ? 1.0f : x};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kSquaredRelu>, float x) {
  return x <= 0 ? Point{0, 0} : Point{x * x, 2 * x};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kTanh>, float x) {
  const float t = tanhf(x);
  return {t, 1 - t * t};
}
template <class T>
STOA_DEVICE Point activation(Kind<ActivationCode::kSigmoid>, float x) {
  const float s = sigmoid_for<T>(x);
  return {s, s * (1 - s)};
}

struct GatedPoint {
  float value, gate_slope, up_slope;
};
template <class T>
STOA_DEVICE GatedPoint clamped_swiglu(const ActivationArgs& a, float gate, float up) {
  const float g = gate > a.limit ? a.limit : gate;
  const float u = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;
  const float s = sigmoid_for<T>(a.alpha * g);
  return {(u + 1) * g * s, gate > a.limit ? 0.0f : (u + 1) * (s + a.alpha * g * s * (1 - s)),
          up > a.limit || up < -a.limit ? 0.0f : g * s};
}

// Without gate the tensor is one row; with it a block has (part of) one row. A thread has kPacks packs, a
// block's width apart, and reads them all before it computes.
template <class T, bool kGated, bool kBackward, int V>
struct ActivationKernel {
  using Args = ActivationArgs;
  static constexpr const char* kName = kBackward ? "activation backward" : "activation forward";
  static constexpr int kThreads = kBlock, kResident = 4;

  struct Pack {
    RawPack<T, V> gate, up, dy;

    STOA_DEVICE void load(const Args& a, std::int64_t row, std::int64_t i) {
      const T* x = static_cast<const T*>(a.x) + row * (kGated ? 2 * a.columns : a.columns) + i;
      gate.load(x);
      if constexpr (kGated) up.load(x + a.columns);
      if constexpr (kBackward) dy.load(static_cast<const T*>(a.dy) + row * a.columns + i);
    }
  };

  template <ActivationCode kKind>
  STOA_DEVICE static void write(const Args& a, std::int64_t row, std::int64_t i, const Pack& pack) {
    float gate[V], up[V], dy[V], out[V], dup[V];
    pack.gate.read(gate);
    if constexpr (kGated) pack.up.read(up);
    if constexpr (kBackward) pack.dy.read(dy);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) {
      if constexpr (kKind == ActivationCode::kClampedSwiglu) {
        const GatedPoint point = clamped_swiglu<T>(a, gate[j], up[j]);
        out[j] = kBackward ? dy[j] * point.gate_slope : point.value;
        dup[j] = dy[j] * point.up_slope;
      } else {
        const Point point = activation<T>(Kind<kKind>{}, gate[j]);
        out[j] = kBackward ? dy[j] * point.slope : point.value;
        if constexpr (kGated) {
          out[j] *= up[j];
          dup[j] = dy[j] * point.value;
        }
      }
    }
    T* y = static_cast<T*>(a.y) + row * (kGated && kBackward ? 2 * a.columns : a.columns) + i;
    store_pack<V>(y, out);
    if constexpr (kGated && kBackward) store_pack<V>(y + a.columns, dup);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t step = std::int64_t{t.count()} * V, row = kGated ? t.block_x() : 0;
    const std::int64_t first =
        (kGated ? t.block_y() : t.block_x()) * step * kPacks + std::int64_t{t.index()} * V;
    Pack packs[kPacks];
    STOA_UNROLL
    for (int k = 0; k < kPacks; ++k)
      if (first + k * step + V <= a.columns) packs[k].load(a, row, first + k * step);
    with_kind<kGated>(a.kind, [&](auto kind) {
      STOA_UNROLL
      for (int k = 0; k < kPacks; ++k)
        if (first + k * step + V <= a.columns)
          write<decltype(kind)::value>(a, row, first + k * step, packs[k]);
    });
  }
};

// Columns [0, a.columns) of every row, by blocks of equal shares.
template <bool kGated, bool kBackward, int V>
void launch_columns(const ActivationArgs& a, void* stream) {
  const std::int64_t packs = a.columns / V, blocks = ceil_div(packs, kBlock * kPacks);
  Grid grid{.threads = blocks > 0 ? round_up_warps(ceil_div(packs, blocks * kPacks), kBlock) : kBlock};
  (kGated ? grid.y : grid.x) = blocks;
  if (kGated) grid.x = a.rows;
  with_fast_type(a.type, [&](auto type) {
    launch<ActivationKernel<decltype(type), kGated, kBackward, V>>(grid, stream, a);
  });
}

template <bool kBackward>
void launch_activation(ActivationArgs a, void* stream) {
  if (a.gated)
    return a.wide ? launch_columns<true, kBackward, 8>(a, stream)
                  : launch_columns<true, kBackward, 1>(a, stream);
  a.columns *= a.rows;  // one row
  a.rows = 1;
  const std::int64_t whole = a.wide ? a.columns / 8 * 8 : 0;
  ActivationArgs rest = a;
  a.columns = whole;
  if (whole > 0) launch_columns<false, kBackward, 8>(a, stream);
  const std::int64_t bytes = whole * bytes_of(a.type);
  rest.x = static_cast<const char*>(rest.x) + bytes;
  if (rest.dy) rest.dy = static_cast<const char*>(rest.dy) + bytes;
  rest.y = static_cast<char*>(rest.y) + bytes;
  rest.columns -= whole;
  if (rest.columns > 0) launch_columns<false, kBackward, 1>(rest, stream);
}

}  // namespace

void launch_activation_forward(const ActivationArgs& a, void* stream) { launch_activation<false>(a, stream); }
void launch_activation_backward(const ActivationArgs& a, void* stream) { launch_activation<true>(a, stream); }

}  // namespace stoa::ops::cuda
