#include "ops/cpu/elementwise_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

void cast(const Rows& x, const Rows& y, std::int64_t begin, std::int64_t end) {
  with_type(x.type, [&](auto from) {
    with_type(y.type, [&](auto to) {
      using X = decltype(from);
      using Y = decltype(to);
      const auto* in = row_of<X>(x, 0) + begin;
      auto* out = row_of<Y>(y, 0) + begin;
      for_vectors(end - begin,
                  [&](std::int64_t i, auto part) { Y::put(out + i, X::get(in + i, part), part); });
    });
  });
}

void add_to(const Rows& x, const Rows& y, std::int64_t begin, std::int64_t end) {
  with_type(x.type, [&](auto from) {
    with_type(y.type, [&](auto to) {
      using X = decltype(from);
      using Y = decltype(to);
      const auto* in = row_of<X>(x, 0) + begin;
      auto* out = row_of<Y>(y, 0) + begin;
      for_vectors(end - begin, [&](std::int64_t i, auto part) {
        Y::put(out + i, Y::get(out + i, part) + X::get(in + i, part), part);
      });
    });
  });
}

void combine(float a, const Rows& x, float b, const Rows& y, std::int64_t begin, std::int64_t end) {
  with_type(x.type, [&](auto type) {
    using T = decltype(type);
    const auto* in = row_of<T>(x, 0) + begin;
    auto* out = row_of<T>(y, 0) + begin;
    const F scale = splat(a), keep = splat(b);
    for_vectors(end - begin, [&](std::int64_t i, auto part) {
      F value = scale * T::get(in + i, part);
      if (b != 0) value += keep * T::get(out + i, part);
      T::put(out + i, value, part);
    });
  });
}

template <class X, class Y>
void add_dropped_rows(const Rows& x, const Rows& branch, const DropoutArgs& dropout, const Rows& y,
                      std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = y.columns;
  float factors[kDropoutPiece];
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* past = x.data ? row_of<Y>(x, r) : nullptr;
    const auto* in = row_of<X>(branch, r);
    auto* out = row_of<Y>(y, r);
    const std::int64_t piece = dropout.p == 0 ? columns : kDropoutPiece;
    for (std::int64_t c = 0; c < columns; c += piece) {
      const std::int64_t n = columns - c < piece ? columns - c : piece;
      if (dropout.p != 0) dropout_factors(dropout, dropout.first + r * columns + c, n, factors);
      for_vectors(n, [&](std::int64_t i, auto part) {
        F value = X::get(in + c + i, part);
        if (dropout.p != 0) value = value * F32::get(factors + i, part);
        if (past) value += Y::get(past + c + i, part);
        Y::put(out + c + i, value, part);
      });
    }
  }
}

void add_dropped(const Rows& x, const Rows& branch, const DropoutArgs& dropout, const Rows& y,
                 std::int64_t begin, std::int64_t end) {
  with_type(branch.type, [&](auto from) {
    with_type(y.type, [&](auto to) {
      add_dropped_rows<decltype(from), decltype(to)>(x, branch, dropout, y, begin, end);
    });
  });
}

double sum_squares(const float* x, std::int64_t n) {
  constexpr int kSums = 32;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (int j = 0; i < n; ++i, ++j) sums[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

template <class E>
void rotary_rows(const RotaryArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const float* cosine = a.table + 2 * a.half * a.positions[t];
    const float* sine = cosine + a.half;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      auto* x = row_of<E>(a.x, t * a.heads + h);
      for_vectors(a.half, [&](std::int64_t i, auto part) {
        const F c = F32::get(cosine + i, part);
        F s = F32::get(sine + i, part);
        if (a.inverse) s = -s;
        const F low = E::get(x + i, part), high = E::get(x + a.half + i, part);
        E::put(x + i, fma(low, c, -(high * s)), part);
        E::put(x + a.half + i, fma(high, c, low * s), part);
      });
    }
  }
}

void rotary(const RotaryArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto type) { rotary_rows<decltype(type)>(a, begin, end); });
}

}  // namespace

const ElementwiseKernels& elementwise_kernels() {
  static constexpr ElementwiseKernels kTable{cast, add_to, combine, add_dropped, sum_squares, rotary};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
