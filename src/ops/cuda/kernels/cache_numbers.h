// Numbers of caches (ops/cache_rows.h) inside kernels: written, and read.
#pragma once

#include <type_traits>

#include "ops/cache_codes.h"
#include "ops/cuda/kernels/cache_rows.h"
#include "ops/cuda/kernels/pack.h"

namespace stoa::ops::cuda {

// Attention would take an infinite key for a masked one: what is too large for fp16 becomes NaN.
template <class T>
STOA_DEVICE float within_range(float x) {
  if constexpr (std::is_same_v<T, f16>)
    return x >= kBeyondF16 || x <= -kBeyondF16 ? float_of(0x7fc00000u) : x;
  else
    return x;
}

// Rounded to bf16 by integers, so that an error has the same bits everywhere.
STOA_DEVICE std::uint16_t scale_bits(float x) {
  const std::uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(u >> 16 | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// Codes of a warp's neighbours, one per lane; lanes without one have 0 for x. Returns the lane's code, and
// the bits of their scale.
struct CacheCode {
  std::int8_t code;
  std::uint16_t scale;
};
STOA_DEVICE CacheCode encode(const Thread& t, float x) {
  static_assert(kCacheColumns == 32);
  // As integers, magnitudes have their order, and NaN is above all.
  std::uint32_t largest = bits_of(x) & 0x7fffffffu;
  for (int step = 16; step > 0; step /= 2) {
    const std::uint32_t other = t.shuffle_xor(largest, step);
    if (other > largest) largest = other;
  }
  CacheCode out;
  out.scale = scale_bits(float_of(largest) / kLargestCacheCode);
  const float unit = float_of(static_cast<std::uint32_t>(out.scale) << 16);
  const float inverse = unit >= kLeastCacheScale && unit <= 3.402823466e38f ? 1.0f / unit : 0.0f;
  // NaN becomes the least code.
  out.code =
      static_cast<std::int8_t>(fminf(fmaxf(rintf(x * inverse), -kLargestCacheCode), kLargestCacheCode));
  return out;
}

// Element `i` of a head's row of d elements.
STOA_DEVICE float cached_number(CacheForm form, const void* row, int i, int d) {
  switch (form) {
    case CacheForm::kF32:
      return static_cast<const float*>(row)[i];
    case CacheForm::kBF16:
      return widen(static_cast<const bf16*>(row)[i]);
    case CacheForm::kF16:
      return widen(static_cast<const f16*>(row)[i]);
    default: {
      const auto* bytes = static_cast<const std::uint8_t*>(row);
      const std::uint8_t* scale = bytes + d + i / kCacheColumns * 2;  // at any address
      const std::uint32_t bits =
          static_cast<std::uint32_t>(scale[0]) << 16 | static_cast<std::uint32_t>(scale[1]) << 24;
      return static_cast<float>(static_cast<std::int8_t>(bytes[i])) * float_of(bits);
    }
  }
}

// Elements [i, i + 8) of a head's row, rounded to T; zeros from d on. `wide`: 16-bit elements at 16 bytes, or
// codes and their scales at even multiples of what they are.
template <class T>
STOA_DEVICE Bytes16 cached_pack(CacheForm form, const void* row, int i, int d, bool wide) {
  Bytes16 out{};
  const auto put_all = [&](auto&& number) {
    STOA_UNROLL
    for (int j = 0; j < 8; ++j) put<T>(out, j, within_range<T>(number(j)));
  };
  if (!wide) {
    put_all([&](int j) { return i + j < d ? cached_number(form, row, i + j, d) : 0.0f; });
  } else if (form == CacheForm::kCodes) {
    const auto* bytes = static_cast<const std::uint8_t*>(row);
    const auto* words = reinterpret_cast<const std::uint32_t*>(bytes + i);
    const std::uint32_t low = words[0], high = words[1];
    const std::uint32_t scale = reinterpret_cast<const std::uint16_t*>(bytes + d)[i / kCacheColumns];
    const float unit = float_of(scale << 16);
    put_all([&](int j) {
      const std::uint32_t word = j < 4 ? low : high;
      return static_cast<float>(static_cast<std::int8_t>(word >> (8 * (j % 4)) & 0xffu)) * unit;
    });
  } else {
    const Bytes16 piece = load16(static_cast<const std::uint16_t*>(row) + i);
    if (form == CacheForm::kBF16)
      put_all([&](int j) { return get<bf16>(piece, j); });
    else
      put_all([&](int j) { return get<f16>(piece, j); });
  }
  return out;
}

}  // namespace stoa::ops::cuda
