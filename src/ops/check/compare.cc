#include "ops/check/compare.h"

#include <cmath>
#include <limits>

#include "ops/reference/values.h"

namespace stoa::ops {

namespace {

double smallest_subnormal(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x1p-1074;
    case DType::kF32:
      return 0x1p-149;
    case DType::kBF16:
      return 0x1p-133;
    default:
      return 0x1p-24;
  }
}

double finite_rms(const Values& values) {
  double sum = 0;
  std::int64_t n = 0;
  for (double x : values) {
    if (!std::isfinite(x)) continue;
    sum += x * x;
    ++n;
  }
  return n ? std::sqrt(sum / static_cast<double>(n)) : 0;
}

// Ids must be equal.
std::optional<Mismatch> worst_integer(const TensorView& got, const TensorView& expected) {
  const auto a = load_integers(got), b = load_integers(expected);
  Mismatch first;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || first.count++ > 0) continue;
    first.index = static_cast<std::int64_t>(i);
    first.got = static_cast<double>(a[i]), first.expected = static_cast<double>(b[i]);
  }
  return first.count > 0 ? std::optional(first) : std::nullopt;
}

}  // namespace

double unit_roundoff(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0;
  }
}

std::string Mismatch::text() const {
  return fmt::format(
      "element {} is {:.9g}, expected {:.9g} (difference {:.3g}, allowed {:.3g}, rms {:.3g}; {} beyond)",
      index, got, expected, std::fabs(got - expected), allowed, rms, count);
}

std::optional<Mismatch> worst_mismatch(const TensorView& got, const TensorView& expected,
                                       const Tolerance& tolerance) {
  if (got.shape != expected.shape || got.dtype != expected.dtype)
    fail<InternalError>("comparison of {} with {}", got.text(), expected.text());
  if (!is_float(expected.dtype) && !is_fp8(expected.dtype)) return worst_integer(got, expected);
  const Values a = load(got), b = load(expected);
  const double rms = finite_rms(b);
  const double relative = tolerance.sum_ulps * unit_roundoff(accumulation_type(expected.dtype)) +
                          tolerance.inner_ulps * unit_roundoff(tolerance.inner);
  const double storage = 2 * unit_roundoff(expected.dtype),
               least = smallest_subnormal(expected.dtype) +
                       8 * unit_roundoff(accumulation_type(expected.dtype)) * tolerance.cancelled;
  Mismatch worst;
  double worst_factor = 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double allowed = storage * std::fabs(b[i]) + relative * (std::fabs(b[i]) + rms) + least;
    double factor = std::fabs(a[i] - b[i]) / allowed;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) factor = std::numeric_limits<double>::infinity();
    if (!(factor > 1)) continue;
    ++worst.count;
    if (worst.count > 1 && factor <= worst_factor) continue;
    worst_factor = factor;
    worst.index = static_cast<std::int64_t>(i);
    worst.got = a[i], worst.expected = b[i], worst.allowed = allowed;
  }
  if (worst.count == 0) return std::nullopt;
  worst.rms = rms;
  return worst;
}

}  // namespace stoa::ops
