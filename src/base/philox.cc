#include "base/philox.h"

#include <xxhash.h>

#include <cmath>
#include <numbers>

namespace stoa {

PhiloxKey philox_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name) {
  const std::uint64_t salt = seed ^ (static_cast<std::uint64_t>(purpose) * 0x9E3779B97F4A7C15ull);
  const std::uint64_t hash = XXH64(name.data(), name.size(), salt);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

double philox_normal(PhiloxKey key, std::uint64_t index) {
  const std::uint64_t block = index >> 1;  // two normals per Philox block
  const auto words = philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
  const std::uint32_t a = words[(index & 1) * 2], b = words[(index & 1) * 2 + 1];
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(b) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace stoa
