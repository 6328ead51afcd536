#include "ops/cpu/optimizer_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

template <class C>
void adam_range(const AdamArgs& a, std::int64_t begin, std::int64_t end) {
  auto* compute = static_cast<typename C::Storage*>(a.compute);
  for_vectors(end - begin, [&](std::int64_t at, auto part) {
    const std::int64_t i = begin + at;
    F master = F32::get(a.master + i, part);
    const F g = fma(splat(a.decay), master, F32::get(a.gradient + i, part) * a.gradient_factor);
    const F m = fma(splat(a.beta1), F32::get(a.m + i, part), g * a.one_minus_beta1);
    const F v = fma(splat(a.beta2), F32::get(a.v + i, part), g * g * a.one_minus_beta2);
    const F root = fma(sqrt(v), splat(a.correction2), splat(a.epsilon));
    master = master * a.keep - m * a.step / root;
    F32::put(a.m + i, m, part);
    F32::put(a.v + i, v, part);
    F32::put(a.master + i, master, part);
    if (compute) C::put(compute + i, master, part);
  });
}

template <class C>
void sgd_range(const SgdArgs& a, std::int64_t begin, std::int64_t end) {
  auto* compute = static_cast<typename C::Storage*>(a.compute);
  for_vectors(end - begin, [&](std::int64_t at, auto part) {
    const std::int64_t i = begin + at;
    F master = F32::get(a.master + i, part);
    F step = fma(splat(a.decay), master, F32::get(a.gradient + i, part) * a.gradient_factor);
    if (a.momentum) {
      step = fma(splat(a.momentum_factor), F32::get(a.momentum + i, part), step);
      F32::put(a.momentum + i, step, part);
    }
    master = fma(splat(-a.rate), step, master);
    F32::put(a.master + i, master, part);
    if (compute) C::put(compute + i, master, part);
  });
}

void adam(const AdamArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.compute_type, [&](auto type) { adam_range<decltype(type)>(a, begin, end); });
}

void sgd(const SgdArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.compute_type, [&](auto type) { sgd_range<decltype(type)>(a, begin, end); });
}

}  // namespace

const OptimizerKernels& optimizer_kernels() {
  static constexpr OptimizerKernels kTable{adam, sgd};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
