#include "ops/cpu/norm_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// body(begin, count, factors): pieces of a row with their dropout factors (null without dropout).
template <class Body>
STOA_INLINE void for_pieces(const DropoutArgs& dropout, std::int64_t row, std::int64_t columns, Body body) {
  if (dropout.p == 0) {
    body(std::int64_t{0}, columns, static_cast<const float*>(nullptr));
    return;
  }
  float factors[kDropoutPiece];
  for (std::int64_t c = 0; c < columns; c += kDropoutPiece) {
    const std::int64_t n = columns - c < kDropoutPiece ? columns - c : kDropoutPiece;
    dropout_factors(dropout, dropout.first + row * columns + c, n, factors);
    body(c, n, static_cast<const float*>(factors));
  }
}

STOA_INLINE F centred_square(F x, F mean, Full) { return (x - mean) * (x - mean); }
STOA_INLINE F centred_square(F x, F mean, First f) {
  I lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return select(lane < f.count, (x - mean) * (x - mean), F{});
}

template <class Part>
STOA_INLINE F weight_of(const NormArgs& a, std::int64_t i, Part part) {
  return a.gamma ? F32::get(a.gamma + i, part) : splat(1.0f);
}

template <class X, class Y>
void forward_rows(const NormArgs& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = a.x.columns;
  const float inverse = 1.0f / static_cast<float>(columns);
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<X>(a.x, r);
    if (a.branch.data) {
      auto* sum = row_of<X>(a.sum, r);
      const void* branch = row_address(a.branch, r);
      for_pieces(a.dropout, r, columns, [&](std::int64_t c, std::int64_t n, const float* factors) {
        for_vectors(n, [&](std::int64_t i, auto part) {
          F b = get_any(a.branch.type, branch, c + i, part);
          if (factors) b = b * F32::get(factors + i, part);
          X::put(sum + c + i, X::get(x + c + i, part) + b, part);
        });
      });
      x = sum;
    }
    float mean = 0;
    if (a.centred) {
      F total{};
      for_vectors(columns, [&](std::int64_t i, auto part) { total += X::get(x + i, part); });
      mean = reduce_add(total) * inverse;
    }
    F squares{};
    for_vectors(columns, [&](std::int64_t i, auto part) {
      squares += centred_square(X::get(x + i, part), splat(mean), part);
    });
    const float variance = reduce_add(squares) * inverse;
    const auto deviation =
        static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(variance) + a.epsilon));
    auto* y = row_of<Y>(a.y, r);
    for_vectors(columns, [&](std::int64_t i, auto part) {
      const F normal = (X::get(x + i, part) - mean) * deviation;
      const F shift = a.beta ? F32::get(a.beta + i, part) : F{};
      Y::put(y + i, fma(normal, weight_of(a, i, part), shift), part);
    });
    if (a.stats) {
      a.stats[2 * r] = mean;
      a.stats[2 * r + 1] = deviation;
    }
  }
}

template <class X, class Y>
void backward_rows(const NormArgs& a, std::int64_t begin, std::int64_t end, float* dgamma, float* dbeta) {
  const std::int64_t columns = a.x.columns;
  const float inverse = 1.0f / static_cast<float>(columns);
  for (std::int64_t i = 0; i < columns; ++i) dgamma[i] = 0;
  if (dbeta)
    for (std::int64_t i = 0; i < columns; ++i) dbeta[i] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const auto* x = row_of<X>(a.x, r);
    const auto* dy = row_of<Y>(a.dy, r);
    const float mean = a.stats[2 * r], deviation = a.stats[2 * r + 1];
    F along_one{}, along_normal{};
    for_vectors(columns, [&](std::int64_t i, auto part) {
      const F normal = (X::get(x + i, part) - mean) * deviation;
      const F g = Y::get(dy + i, part);
      const F scaled = g * weight_of(a, i, part);
      along_one += scaled;
      along_normal = fma(scaled, normal, along_normal);
      F32::put(dgamma + i, fma(g, normal, F32::get(dgamma + i, part)), part);
      if (dbeta) F32::put(dbeta + i, F32::get(dbeta + i, part) + g, part);
    });
    const float mean_one = a.centred ? reduce_add(along_one) * inverse : 0.0f;
    const float mean_normal = reduce_add(along_normal) * inverse;
    auto* dx = row_of<X>(a.dx, r);
    for_pieces(a.dbranch.data ? a.dropout : DropoutArgs{}, r, columns,
               [&](std::int64_t c, std::int64_t n, const float* factors) {
                 const auto* past = a.dresidual.data ? row_of<X>(a.dresidual, r) + c : nullptr;
                 void* branch = a.dbranch.data ? row_address(a.dbranch, r) : nullptr;
                 for_vectors(n, [&](std::int64_t i, auto part) {
                   const F normal = (X::get(x + c + i, part) - mean) * deviation;
                   const F scaled = Y::get(dy + c + i, part) * weight_of(a, c + i, part);
                   F d = (scaled - mean_one - normal * mean_normal) * deviation;
                   if (past) d += X::get(past + i, part);
                   X::put(dx + c + i, d, part);
                   if (branch) {
                     if (factors) d = d * F32::get(factors + i, part);
                     put_any(a.dbranch.type, branch, c + i, d, part);
                   }
                 });
               });
  }
}

void forward(const NormArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto x) {
    with_type(a.y.type, [&](auto y) { forward_rows<decltype(x), decltype(y)>(a, begin, end); });
  });
}

void backward(const NormArgs& a, std::int64_t begin, std::int64_t end, float* dgamma, float* dbeta) {
  with_type(a.x.type, [&](auto x) {
    with_type(a.dy.type,
              [&](auto y) { backward_rows<decltype(x), decltype(y)>(a, begin, end, dgamma, dbeta); });
  });
}

void add_partials(const float* partial, std::int64_t count, std::int64_t stride, float* y, std::int64_t begin,
                  std::int64_t end, bool accumulate) {
  for_vectors(end - begin, [&](std::int64_t i, auto part) {
    F total{};
    for (std::int64_t p = 0; p < count; ++p) total += F32::get(partial + p * stride + begin + i, part);
    if (accumulate) total += F32::get(y + begin + i, part);
    F32::put(y + begin + i, total, part);
  });
}

}  // namespace

const NormKernels& norm_kernels() {
  static constexpr NormKernels kTable{forward, backward, add_partials};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
