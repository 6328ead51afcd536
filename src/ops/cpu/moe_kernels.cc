#include "ops/cpu/moe_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

template <class E>
void sum_rows(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    auto* y = row_of<E>(a.y, t);
    for_vectors(a.y.columns, [&](std::int64_t i, auto part) {
      F sum{};
      for (std::int64_t j = 0; j < a.k; ++j) sum += E::get(row_of<E>(a.x, a.index[t * a.k + j]) + i, part);
      E::put(y + i, sum, part);
    });
  }
}

template <class E>
void scale_rows(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const F w = splat(a.weights[a.index[r]]);
    const auto* x = row_of<E>(a.x, r);
    auto* y = row_of<E>(a.y, r);
    for_vectors(a.x.columns,
                [&](std::int64_t i, auto part) { E::put(y + i, E::get(x + i, part) * w, part); });
  }
}

template <class E>
void scale_rows_backward(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const F w = splat(a.weights[a.index[r]]);
    const auto *x = row_of<E>(a.x, r), *dy = row_of<E>(a.dy, r);
    auto* dx = row_of<E>(a.y, r);
    F sum{};
    for_vectors(a.x.columns, [&](std::int64_t i, auto part) {
      const F d = E::get(dy + i, part);
      sum = fma(d, E::get(x + i, part), sum);
      E::put(dx + i, d * w, part);
    });
    a.dweights[a.index[r]] = reduce_add(sum);
  }
}

void sum(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto e) { sum_rows<decltype(e)>(a, begin, end); });
}
void scale(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto e) { scale_rows<decltype(e)>(a, begin, end); });
}
void scale_backward(const MoeArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.x.type, [&](auto e) { scale_rows_backward<decltype(e)>(a, begin, end); });
}

}  // namespace

const MoeKernels& moe_kernels() {
  static constexpr MoeKernels kTable{sum, scale, scale_backward};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
