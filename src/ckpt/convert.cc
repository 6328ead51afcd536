#include "ckpt/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace stoa::ckpt {
namespace {

// Rounds towards zero and keeps a sticky last bit, so that rounding again to a 16-bit type is as if done
// once.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class To, class From>
To cast(From x) {
  constexpr bool wide_from = std::is_same_v<From, double>, wide_to = std::is_same_v<To, double>;
  if constexpr (wide_from && (std::is_same_v<To, bf16> || std::is_same_v<To, f16>))
    return To(round_to_odd(x));
  else if constexpr (wide_from)
    return static_cast<To>(x);
  else if constexpr (wide_to)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<To>(static_cast<float>(x));
}

template <class From, class To>
void convert_loop(const std::byte* from, std::byte* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, from + static_cast<std::size_t>(i) * sizeof(From), sizeof x);
    const To y = cast<To>(x);
    std::memcpy(to + static_cast<std::size_t>(i) * sizeof(To), &y, sizeof y);
  }
}

}  // namespace

void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type,
                      std::int64_t count) {
  if (count == 0) return;
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size_of(from_type));
    return;
  }
  require<ShapeError>(is_float(from_type) && is_float(to_type),
                      "cannot convert {} into {}: only floating-point types convert into each other",
                      name_of(from_type), name_of(to_type));
  dispatch_float(from_type, [&]<class From>() {
    dispatch_float(to_type, [&]<class To>() { convert_loop<From, To>(from, to, count); });
  });
}

namespace {

// All bits of the exponent set: infinite or not a number. Integer arithmetic, which compilers vectorise.
template <class Bits>
std::int64_t count_full_exponents(const std::byte* data, Bits exponent, std::int64_t count) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + static_cast<std::size_t>(i) * sizeof(Bits), sizeof bits);
    found += (bits & exponent) == exponent ? 1 : 0;
  }
  return found;
}

}  // namespace

std::int64_t count_non_finite(const std::byte* data, DType type, std::int64_t count) {
  switch (type) {
    case DType::kF64:
      return count_full_exponents(data, std::uint64_t{0x7ff0000000000000}, count);
    case DType::kF32:
      return count_full_exponents(data, std::uint32_t{0x7f800000}, count);
    case DType::kBF16:
      return count_full_exponents(data, std::uint16_t{0x7f80}, count);
    case DType::kF16:
      return count_full_exponents(data, std::uint16_t{0x7c00}, count);
    default:
      return 0;
  }
}

}  // namespace stoa::ckpt
