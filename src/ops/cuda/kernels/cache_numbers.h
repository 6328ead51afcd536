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

// Rounded to bf16 by integers, so that an error has the same bits everywhere: a GPU computes a NaN of
// its own.
STOA_DEVICE std::uint16_t scale_bits(float x) {
  const std::uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
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

// Calls body with the form as a constant, so that nothing depends on it inside loops.
template <CacheForm kForm>
struct Form {
  static constexpr CacheForm value = kForm;
};
template <class Body>
STOA_DEVICE void with_form(CacheForm form, const Body& body) {
  switch (form) {
    case CacheForm::kF32:
      return body(Form<CacheForm::kF32>{});
    case CacheForm::kBF16:
      return body(Form<CacheForm::kBF16>{});
    case CacheForm::kF16:
      return body(Form<CacheForm::kF16>{});
    default:
      return body(Form<CacheForm::kCodes>{});
  }
}

// Element `i` of a head's row of d elements.
template <CacheForm kForm>
STOA_DEVICE float cached_number(const void* row, int i, int d) {
  if constexpr (kForm == CacheForm::kF32) {
    return static_cast<const float*>(row)[i];
  } else if constexpr (kForm == CacheForm::kBF16) {
    return widen(static_cast<const bf16*>(row)[i]);
  } else if constexpr (kForm == CacheForm::kF16) {
    return widen(static_cast<const f16*>(row)[i]);
  } else {
    const auto* bytes = static_cast<const std::uint8_t*>(row);
    const std::uint8_t* scale = bytes + d + i / kCacheColumns * 2;  // at any address
    const std::uint32_t bits =
        static_cast<std::uint32_t>(scale[0]) << 16 | static_cast<std::uint32_t>(scale[1]) << 24;
    return static_cast<float>(static_cast<std::int8_t>(bytes[i])) * float_of(bits);
  }
}

// Elements [i, i + 8) of a head's row as they are kept: 16-bit elements at 16 bytes, or codes and their
// scales at even multiples of what they are.
template <CacheForm kForm>
struct CachedPack {
  static_assert(kForm != CacheForm::kF32);
  Bytes16 words{};
  std::uint32_t scale = 0;

  STOA_DEVICE void load(const void* row, int i, int d) {
    if constexpr (kForm == CacheForm::kCodes) {
      const auto* bytes = static_cast<const std::uint8_t*>(row);
      const auto* codes = reinterpret_cast<const std::uint32_t*>(bytes + i);
      words.words[0] = codes[0], words.words[1] = codes[1];
      scale = reinterpret_cast<const std::uint16_t*>(bytes + d)[i / kCacheColumns];
    } else {
      words = load16(static_cast<const std::uint16_t*>(row) + i);
    }
  }
  STOA_DEVICE float number(int j) const {
    if constexpr (kForm == CacheForm::kCodes)
      return static_cast<float>(static_cast<std::int8_t>(words.words[j / 4] >> (8 * (j % 4)) & 0xffu)) *
             float_of(scale << 16);
    else if constexpr (kForm == CacheForm::kBF16)
      return get<bf16>(words, j);
    else
      return get<f16>(words, j);
  }
  // Rounded to T; zeros where nothing was loaded.
  template <class T>
  STOA_DEVICE Bytes16 as() const {
    Bytes16 out{};
    STOA_UNROLL
    for (int j = 0; j < 8; ++j) put<T>(out, j, within_range<T>(number(j)));
    return out;
  }
};

// The same at any address; zeros from d on.
template <CacheForm kForm, class T>
STOA_DEVICE Bytes16 cached_pack(const void* row, int i, int d) {
  Bytes16 out{};
  STOA_UNROLL
  for (int j = 0; j < 8; ++j)
    put<T>(out, j, within_range<T>(i + j < d ? cached_number<kForm>(row, i + j, d) : 0.0f));
  return out;
}

}  // namespace stoa::ops::cuda
