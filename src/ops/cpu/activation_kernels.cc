#include "ops/cpu/activation_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

template <class E>
struct MathFor {
  using Type = Rough;
};
template <>
struct MathFor<F32> {
  using Type = Exact;
};

// slope() is the derivative of value(). Within the gelu curves tanh is written as a sigmoid, which keeps
// small results of large negative x exact to rounding: (1 + tanh u) / 2 = sigmoid(2u).
template <class Math>
struct Gelu {
  STOA_INLINE F value(F x) { return x * normal_cdf<Math>(x); }
  STOA_INLINE F slope(F x) { return fma(x * 0.39894228f, Math::exp(x * x * -0.5f), normal_cdf<Math>(x)); }
};
template <class Math>
struct GeluTanh {
  static constexpr float kTwice = 1.59576912f;  // 2 sqrt(2 / pi)
  STOA_INLINE F value(F x) {
    return x * sigmoid<Math>(x * fma(x * x, splat(0.044715f * kTwice), splat(kTwice)));
  }
  STOA_INLINE F slope(F x) {
    const F s = sigmoid<Math>(x * fma(x * x, splat(0.044715f * kTwice), splat(kTwice)));
    const F inner = fma(x * x, splat(3 * 0.044715f * kTwice), splat(kTwice));
    return fma(x * s * (1.0f - s), inner, s);
  }
};
template <class Math>
struct QuickGelu {
  STOA_INLINE F value(F x) { return x * sigmoid<Math>(x * 1.702f); }
  STOA_INLINE F slope(F x) {
    const F s = sigmoid<Math>(x * 1.702f);
    return fma(x * 1.702f * s, 1.0f - s, s);
  }
};
template <class Math>
struct Silu {
  STOA_INLINE F value(F x) { return x * sigmoid<Math>(x); }
  STOA_INLINE F slope(F x) {
    const F s = sigmoid<Math>(x);
    return fma(x * s, 1.0f - s, s);
  }
};
struct Relu {
  STOA_INLINE F value(F x) { return select(x < 0.0f, F{}, x); }
  STOA_INLINE F slope(F x) { return select(x > 0.0f, splat(1), F{}); }
};
struct SquaredRelu {
  STOA_INLINE F value(F x) { return select(x < 0.0f, F{}, x * x); }
  STOA_INLINE F slope(F x) { return select(x > 0.0f, x + x, F{}); }
};
// The sigmoid form cancels near zero; there the first terms of the series are exact to rounding.
template <class Math>
struct Tanh {
  STOA_INLINE F value(F x) {
    const F s = x * x;
    const F series =
        fma(s, fma(s, fma(s, splat(62.0f / 2835), splat(-17.0f / 315)), splat(2.0f / 15)), splat(-1.0f / 3));
    return select(s < 0.1225f, fma(x * s, series, x), 2.0f * sigmoid<Math>(x + x) - 1.0f);
  }
  STOA_INLINE F slope(F x) { return 4.0f * sigmoid<Math>(x + x) * sigmoid<Math>(x * -2.0f); }
};
template <class Math>
struct Sigmoid {
  STOA_INLINE F value(F x) { return sigmoid<Math>(x); }
  STOA_INLINE F slope(F x) {
    const F s = sigmoid<Math>(x);
    return s * (1.0f - s);
  }
};

template <class C, class E>
void forward_rows(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<E>(a.x, r);
    auto* y = row_of<E>(a.y, r);
    for_vectors(a.width, [&](std::int64_t i, auto part) {
      F value = C::value(E::get(x + i, part));
      if (a.gated) value = value * E::get(x + a.width + i, part);
      E::put(y + i, value, part);
    });
  }
}

template <class C, class E>
void backward_rows(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<E>(a.x, r);
    const auto* dy = row_of<E>(a.dy, r);
    auto* dx = row_of<E>(a.dx, r);
    for_vectors(a.width, [&](std::int64_t i, auto part) {
      const F gate = E::get(x + i, part), d = E::get(dy + i, part);
      F slope = C::slope(gate) * d;
      if (a.gated) {
        const F up = E::get(x + a.width + i, part);
        slope = slope * up;
        E::put(dx + a.width + i, C::value(gate) * d, part);
      }
      E::put(dx + i, slope, part);
    });
  }
}

// Comparisons are such that NaN stays NaN.
STOA_INLINE F at_most(F x, float limit) { return select(x > limit, splat(limit), x); }
STOA_INLINE F at_least(F x, float limit) { return select(x < limit, splat(limit), x); }

template <class Math, class E>
void clamped_forward_rows(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<E>(a.x, r);
    auto* y = row_of<E>(a.y, r);
    for_vectors(a.width, [&](std::int64_t i, auto part) {
      const F gate = at_most(E::get(x + i, part), a.limit),
              up = at_least(at_most(E::get(x + a.width + i, part), a.limit), -a.limit);
      E::put(y + i, (up + 1.0f) * (gate * sigmoid<Math>(gate * a.alpha)), part);
    });
  }
}

template <class Math, class E>
void clamped_backward_rows(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<E>(a.x, r);
    const auto* dy = row_of<E>(a.dy, r);
    auto* dx = row_of<E>(a.dx, r);
    for_vectors(a.width, [&](std::int64_t i, auto part) {
      const F raw_gate = E::get(x + i, part), raw_up = E::get(x + a.width + i, part),
              d = E::get(dy + i, part);
      const F gate = at_most(raw_gate, a.limit), up = at_least(at_most(raw_up, a.limit), -a.limit);
      const F s = sigmoid<Math>(gate * a.alpha);
      const F dgate = d * (up + 1.0f) * fma(gate * a.alpha * s, 1.0f - s, s), dup = d * (gate * s);
      E::put(dx + a.width + i, select(raw_up > a.limit, F{}, select(raw_up < -a.limit, F{}, dup)), part);
      E::put(dx + i, select(raw_gate > a.limit, F{}, dgate), part);
    });
  }
}

template <class Math, class Body>
STOA_INLINE void with_curve(Curve curve, Body body) {
  switch (curve) {
    case Curve::kGelu:
      body(Gelu<Math>{});
      break;
    case Curve::kGeluTanh:
      body(GeluTanh<Math>{});
      break;
    case Curve::kQuickGelu:
      body(QuickGelu<Math>{});
      break;
    case Curve::kSilu:
      body(Silu<Math>{});
      break;
    case Curve::kRelu:
      body(Relu{});
      break;
    case Curve::kSquaredRelu:
      body(SquaredRelu{});
      break;
    case Curve::kTanh:
      body(Tanh<Math>{});
      break;
    case Curve::kSigmoid:
      body(Sigmoid<Math>{});
      break;
    case Curve::kClampedSwiglu:  // of two arguments
      break;
  }
}

void forward(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto type) {
    if (a.curve == Curve::kClampedSwiglu)
      return clamped_forward_rows<typename MathFor<decltype(type)>::Type, decltype(type)>(a, begin, end);
    with_curve<typename MathFor<decltype(type)>::Type>(
        a.curve, [&](auto curve) { forward_rows<decltype(curve), decltype(type)>(a, begin, end); });
  });
}

void backward(const ActivationArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto type) {
    if (a.curve == Curve::kClampedSwiglu)
      return clamped_backward_rows<typename MathFor<decltype(type)>::Type, decltype(type)>(a, begin, end);
    with_curve<typename MathFor<decltype(type)>::Type>(
        a.curve, [&](auto curve) { backward_rows<decltype(curve), decltype(type)>(a, begin, end); });
  });
}

}  // namespace

const ActivationKernels& activation_kernels() {
  static constexpr ActivationKernels kTable{forward, backward};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
