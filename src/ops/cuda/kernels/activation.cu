#include <cmath>

#include "ops/cuda/kernels/activation.h"
#include "ops/cuda/kernels/approximations.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;

struct Point {
  float value, slope;
};

template <ActivationCode kKind>
struct Kind {};

// Calls body(Kind) once for many elements.
template <class Body>
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
      return;  // of two arguments
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

// Without gate the tensor is one row; with it a block has (part of) one row.
template <class T, bool kBackward>
struct ActivationKernel {
  using Args = ActivationArgs;
  static constexpr const char* kName = kBackward ? "activation backward" : "activation forward";
  static constexpr int kThreads = kBlock;

  template <int V>
  STOA_DEVICE static void piece(const Args& a, std::int64_t row, std::int64_t i) {
    const std::int64_t wide = a.gated ? 2 * a.columns : a.columns;
    const T* x = static_cast<const T*>(a.x) + row * wide + i;
    float gate[V], up[V], out[V];
    load_pack<V>(x, gate);
    if (a.gated) load_pack<V>(x + a.columns, up);
    if constexpr (kBackward) {
      float dy[V];
      load_pack<V>(static_cast<const T*>(a.dy) + row * a.columns + i, dy);
      float dup[V];
      if (a.kind == ActivationCode::kClampedSwiglu) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) {
          const GatedPoint point = clamped_swiglu<T>(a, gate[j], up[j]);
          out[j] = dy[j] * point.gate_slope;
          dup[j] = dy[j] * point.up_slope;
        }
      }
      with_kind(a.kind, [&](auto kind) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) {
          const Point point = activation<T>(kind, gate[j]);
          out[j] = dy[j] * point.slope;
          if (a.gated) {
            out[j] *= up[j];
            dup[j] = dy[j] * point.value;
          }
        }
      });
      T* dx = static_cast<T*>(a.y) + row * wide + i;
      store_pack<V>(dx, out);
      if (a.gated) store_pack<V>(dx + a.columns, dup);
    } else {
      if (a.kind == ActivationCode::kClampedSwiglu) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) out[j] = clamped_swiglu<T>(a, gate[j], up[j]).value;
      }
      with_kind(a.kind, [&](auto kind) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) {
          out[j] = activation<T>(kind, gate[j]).value;
          if (a.gated) out[j] *= up[j];
        }
      });
      store_pack<V>(static_cast<T*>(a.y) + row * a.columns + i, out);
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const int each = a.wide ? 8 : 1;
    const std::int64_t i = (t.block_y() * kBlock + t.index()) * each;
    const std::int64_t row = a.gated ? t.block_x() : 0;
    const std::int64_t at = a.gated ? i : (t.block_x() * kBlock + t.index()) * each;
    const std::int64_t count = a.gated ? a.columns : a.rows * a.columns;
    if (a.wide && at + 8 <= count) {
      piece<8>(a, row, at);
    } else {
      for (std::int64_t j = at; j < at + each && j < count; ++j) piece<1>(a, row, j);
    }
  }
};

template <bool kBackward>
void launch_activation(ActivationArgs a, void* stream) {
  const std::int64_t each = a.wide ? 8 : 1;
  Grid grid{.threads = kBlock};
  if (a.gated) {
    grid.x = a.rows;
    grid.y = ceil_div(a.columns, kBlock * each);
  } else {
    a.columns *= a.rows;  // one row
    a.rows = 1;
    grid.x = ceil_div(a.columns, kBlock * each);
  }
  with_fast_type(a.type,
                 [&](auto type) { launch<ActivationKernel<decltype(type), kBackward>>(grid, stream, a); });
}

}  // namespace

void launch_activation_forward(const ActivationArgs& a, void* stream) { launch_activation<false>(a, stream); }
void launch_activation_backward(const ActivationArgs& a, void* stream) { launch_activation<true>(a, stream); }

}  // namespace stoa::ops::cuda
