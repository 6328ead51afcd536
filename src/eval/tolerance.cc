#include "eval/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace stoa::eval {
namespace {

double roundoff_of(ckpt::StorageType type) {
  switch (type) {
    case ckpt::StorageType::kF64:
      return 0x1p-53;
    case ckpt::StorageType::kF32:
      return 0x1p-24;
    case ckpt::StorageType::kF16:
      return 0x1p-11;
    case ckpt::StorageType::kBF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

}  // namespace

double unit_roundoff(std::string_view type) { return roundoff_of(ckpt::storage_type(dtype_from_name(type))); }

Tolerance::Tolerance(std::string_view compute_a, std::string_view compute_b, std::int64_t inner,
                     std::int64_t layers)
    : layers_(std::max<std::int64_t>(layers, 1)) {
  const double u = std::max(unit_roundoff(compute_a), unit_roundoff(compute_b));
  // Sums are kept in fp32, in fp64 for fp64.
  const double v = u <= 0x1p-53 ? 0x1p-53 : 0x1p-24;
  rounding_ = std::sqrt(u * u + static_cast<double>(inner) * v * v);
}

Allowed Tolerance::of(const ckpt::DumpRecord& a, const ckpt::DumpRecord& b, std::int64_t elements) const {
  using ckpt::DumpPhase;
  const double stored = std::max(roundoff_of(a.type), roundoff_of(b.type)) * (a.type == b.type ? 0 : 1);
  // The largest of n independent errors.
  const double largest =
      std::max(3.0, std::sqrt(2 * std::log(static_cast<double>(std::max<std::int64_t>(elements, 1)))));
  if (roundoff_of(a.type) == 0) return {};  // token ids and the like
  // Two runs whose updates had opposite signs are twice a move apart.
  if (a.phase == DumpPhase::kWeights) return {stored, stored, 2 * moved_};
  const double layer = static_cast<double>(std::clamp<std::int64_t>(a.layer + 1, 0, layers_ + 1));
  const double total = static_cast<double>(layers_ + 2);
  const double passed = a.phase == DumpPhase::kForward ? layer + 1 : 2 * total - layer;  // blocks behind it
  const double norm =
      kSafety * (rounding_ * std::sqrt(kRoundings * passed) + drift_ * std::sqrt(passed)) + stored;
  return {norm, norm * largest, 0};
}

}  // namespace stoa::eval
