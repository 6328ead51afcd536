#include "ops/cpu/divergence_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

I lanes_below(int count) {
  I lane;
  for (int j = 0; j < kLanes; ++j) lane[j] = j;
  return lane < count;
}
I counted(Full) { return lanes_below(kLanes); }
I counted(First f) { return lanes_below(f.count); }

F log_each(F x) {
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_logf(x[i]);
  return x;
}

// x log(x / y) of logarithms whose difference is given; 0 where x is.
F term(F x, F difference) { return select(x > 0.0f, x * difference, F{}); }

struct Predictions {
  F q, p;  // 0 in lanes that do not count
  F log_q, log_p;
};

template <class E, class Part>
Predictions predictions(const DivergenceRow& row, std::int64_t i, Part part) {
  const auto* student = static_cast<const typename E::Storage*>(row.student);
  const auto* teacher = static_cast<const typename E::Storage*>(row.teacher);
  Predictions out;
  out.log_q = E::get(student + i, part) * row.inverse_temperature - row.student_lse;
  out.log_p = E::get(teacher + i, part) * row.inverse_temperature - row.teacher_lse;
  out.q = select(counted(part), exp(out.log_q), F{});
  out.p = select(counted(part), exp(out.log_p), F{});
  return out;
}

F log_mixture(const DivergenceRow& row, const Predictions& c) {
  return log_each(c.p * row.mixture + c.q * (1 - row.mixture));
}

template <class E>
void sums_of(const DivergenceRow& row, float* of_teacher, float* of_student) {
  F p_sum{}, q_sum{};
  for_vectors(row.n, [&](std::int64_t i, auto part) {
    const Predictions c = predictions<E>(row, i, part);
    if (row.kind == DivergenceKind::kForward) {
      p_sum += term(c.p, c.log_p - c.log_q);
    } else if (row.kind == DivergenceKind::kReverse) {
      q_sum += term(c.q, c.log_q - c.log_p);
    } else {
      const F log_m = log_mixture(row, c);
      p_sum += term(c.p, c.log_p - log_m);
      q_sum += term(c.q, c.log_q - log_m);
    }
  });
  *of_teacher = reduce_add(p_sum);
  *of_student = reduce_add(q_sum);
}

template <class E>
void gradient_of(const DivergenceRow& row, float weight, float of_student, typename E::Storage* gradient,
                 std::int64_t width) {
  for_vectors(row.n, [&](std::int64_t i, auto part) {
    const Predictions c = predictions<E>(row, i, part);
    F slope;
    if (row.kind == DivergenceKind::kForward)
      slope = c.q - c.p;
    else if (row.kind == DivergenceKind::kReverse)
      slope = term(c.q, c.log_q - c.log_p - of_student);
    else
      slope = term(c.q, c.log_q - log_mixture(row, c) - of_student) * (1 - row.mixture);
    E::put(gradient + i, slope * weight, part);
  });
  for_vectors(width - row.n, [&](std::int64_t i, auto part) { E::put(gradient + row.n + i, F{}, part); });
}

void divergence_sums(const DivergenceRow& row, float* of_teacher, float* of_student) {
  with_type(row.type, [&](auto tag) { sums_of<decltype(tag)>(row, of_teacher, of_student); });
}

void divergence_gradient(const DivergenceRow& row, float weight, float of_student, void* gradient,
                         std::int64_t width) {
  with_type(row.type, [&](auto tag) {
    using E = decltype(tag);
    gradient_of<E>(row, weight, of_student, static_cast<typename E::Storage*>(gradient), width);
  });
}

}  // namespace

const DivergenceKernels& divergence_kernels() {
  static constexpr DivergenceKernels kTable{divergence_sums, divergence_gradient};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
