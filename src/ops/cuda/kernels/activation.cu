#include <cmath>

#include "ops/cuda/kernels/activation.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;

struct Point {
  float value, slope;
};

STOA_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Comparisons are such that NaN stays NaN.
STOA_DEVICE Point activation(ActivationCode kind, float x) {
  switch (kind) {
    case ActivationCode::kGelu: {
      const float cdf = 0.5f * erfcf(-x * 0.70710678118654752f);
      return {x * cdf, cdf + x * 0.39894228040143268f * expf(-0.5f * x * x)};
    }
    case ActivationCode::kGeluTanh: {
      // 0.5 (1 + tanh u) = sigmoid(2u)
      const float c = 0.79788456080286536f;
      const float s = sigmoid(2 * c * (x + 0.044715f * x * x * x));
      return {x * s, s + 2 * x * s * (1 - s) * c * (1 + 3 * 0.044715f * x * x)};
    }
    case ActivationCode::kQuickGelu: {
      const float s = sigmoid(1.702f * x);
      return {x * s, s + 1.702f * x * s * (1 - s)};
    }
    case ActivationCode::kSilu: {
      const float s = sigmoid(x);
      return {x * s, s + x * s * (1 - s)};
    }
    case ActivationCode::kRelu:
      return x <= 0 ? Point{0, 0} : Point{x, x == x ? 1.0f : x};
    case ActivationCode::kSquaredRelu:
      return x <= 0 ? Point{0, 0} : Point{x * x, 2 * x};
    case ActivationCode::kTanh: {
      const float t = tanhf(x);
      return {t, 1 - t * t};
    }
    case ActivationCode::kSigmoid: {
      const float s = sigmoid(x);
      return {s, s * (1 - s)};
    }
    case ActivationCode::kClampedSwiglu:
      break;  // of two arguments
  }
  return {x, 1};
}

struct GatedPoint {
  float value, gate_slope, up_slope;
};
STOA_DEVICE GatedPoint clamped_swiglu(const ActivationArgs& a, float gate, float up) {
  const float g = gate > a.limit ? a.limit : gate;
  const float u = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;
  const float s = sigmoid(a.alpha * g);
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
      STOA_UNROLL
      for (int j = 0; j < V; ++j) {
        if (a.kind == ActivationCode::kClampedSwiglu) {
          const GatedPoint point = clamped_swiglu(a, gate[j], up[j]);
          out[j] = dy[j] * point.gate_slope;
          dup[j] = dy[j] * point.up_slope;
          continue;
        }
        const Point point = activation(a.kind, gate[j]);
        out[j] = dy[j] * point.slope;
        if (a.gated) {
          out[j] *= up[j];
          dup[j] = dy[j] * point.value;
        }
      }
      T* dx = static_cast<T*>(a.y) + row * wide + i;
      store_pack<V>(dx, out);
      if (a.gated) store_pack<V>(dx + a.columns, dup);
    } else {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) {
        if (a.kind == ActivationCode::kClampedSwiglu) {
          out[j] = clamped_swiglu(a, gate[j], up[j]).value;
          continue;
        }
        out[j] = activation(a.kind, gate[j]).value;
        if (a.gated) out[j] *= up[j];
      }
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
