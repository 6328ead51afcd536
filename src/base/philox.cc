#include "base/philox.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace stoa {

PhiloxKey philox_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name) {
  const std::uint64_t salt = seed ^ (static_cast<std::uint64_t>(purpose) * 0x9E3779B97F4A7C15ull);
  const std::uint64_t hash = XXH64(name.data(), name.size(), salt);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

namespace {

// Natural logarithm of a normal number x > 0: x = m 2^e with m near 1, log m = 2 artanh((m - 1) / (m + 1)).
inline double log_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  double e = std::bit_cast<double>((bits >> 52) | 0x4330000000000000ull) -
             (0x1p52 + 1023.0);  // no conversion: 2^52 + e
  const bool high = m > std::numbers::sqrt2;
  m = high ? 0.5 * m : m;
  e = high ? e + 1.0 : e;
  const double s = (m - 1.0) / (m + 1.0), t = s * s;
  double sum = 1.0 / 19;
  sum = sum * t + 1.0 / 17;
  sum = sum * t + 1.0 / 15;
  sum = sum * t + 1.0 / 13;
  sum = sum * t + 1.0 / 11;
  sum = sum * t + 1.0 / 9;
  sum = sum * t + 1.0 / 7;
  sum = sum * t + 1.0 / 5;
  sum = sum * t + 1.0 / 3;
  sum = sum * t + 1.0;
  return e * std::numbers::ln2 + 2.0 * s * sum;
}

// cos(2 pi v) for v in [0, 1) = -sin(2 pi r) with r = 1/4 - |v - 1/2|, by the series up to x^21.
inline double cos_of_turns(double v) {
  const double d = v - 0.5, r = 0.25 - (d < 0 ? -d : d);
  const double x = 2.0 * std::numbers::pi * r, t = x * x;
  double sum = 1.0 / 51090942171709440000.0;
  sum = sum * t - 1.0 / 121645100408832000.0;
  sum = sum * t + 1.0 / 355687428096000.0;
  sum = sum * t - 1.0 / 1307674368000.0;
  sum = sum * t + 1.0 / 6227020800.0;
  sum = sum * t - 1.0 / 39916800.0;
  sum = sum * t + 1.0 / 362880.0;
  sum = sum * t - 1.0 / 5040.0;
  sum = sum * t + 1.0 / 120.0;
  sum = sum * t - 1.0 / 6.0;
  sum = sum * t + 1.0;
  return -(x * sum);
}

inline double normal_of(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(b) * 0x1p-32;
  return std::sqrt(-2.0 * log_of(u)) * cos_of_turns(v);
}

// Philox blocks whose numbers are made side by side.
constexpr int kBlocks = 32;

// One loop per step over all blocks: loops that a compiler turns into vector instructions. Compiled for
// several instruction sets, chosen when the program starts (not under sanitizers: they are not ready by
// then). The bits are the same, since contraction is off.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
void normal_blocks(PhiloxKey key, std::uint64_t first_block, double* out) {
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first_block + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block);
    c1[i] = static_cast<std::uint32_t>(block >> 32);
    c2[i] = c3[i] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i], p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ key.lo;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ key.hi;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    key.lo += 0x9E3779B9u;
    key.hi += 0xBB67AE85u;
  }
  double even[kBlocks], odd[kBlocks];
  for (int i = 0; i < kBlocks; ++i) even[i] = normal_of(c0[i], c1[i]);
  for (int i = 0; i < kBlocks; ++i) odd[i] = normal_of(c2[i], c3[i]);
  for (int i = 0; i < kBlocks; ++i) out[2 * i] = even[i], out[2 * i + 1] = odd[i];
}

}  // namespace

double philox_normal(PhiloxKey key, std::uint64_t index) {
  const std::uint64_t block = index >> 1;  // two normals per Philox block
  const auto words =
      philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
  return normal_of(words[(index & 1) * 2], words[(index & 1) * 2 + 1]);
}

void philox_normals(PhiloxKey key, std::uint64_t first, std::int64_t count, double* out) {
  double piece[2 * kBlocks];
  for (std::int64_t done = 0; done < count;) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(done);
    const std::int64_t skip = static_cast<std::int64_t>(index & 1);
    normal_blocks(key, index >> 1, piece);
    const std::int64_t usable = std::min<std::int64_t>(2 * kBlocks - skip, count - done);
    std::copy_n(piece + skip, usable, out + done);
    done += usable;
  }
}

}  // namespace stoa
