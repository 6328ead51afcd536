// Philox4x32-10 on the device: the same words as base/philox.h.
#pragma once

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

struct Words4 {
  std::uint32_t w[4];
};

STOA_DEVICE Words4 philox(std::uint32_t key_lo, std::uint32_t key_hi, Words4 c) {
  STOA_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.w[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.w[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.w[1] ^ key_lo, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.w[3] ^ key_hi, static_cast<std::uint32_t>(p0)}};
    key_lo += 0x9E3779B9u;
    key_hi += 0xBB67AE85u;
  }
  return c;
}

STOA_DEVICE float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Multiplies V elements by 0 or 1/(1-p). Their global indices are first + index …; when V is 8 the sum is a
// multiple of 8.
template <int V>
STOA_DEVICE void apply_dropout(const DropoutArgs& a, std::int64_t index, float (&x)[V]) {
  if (a.p == 0) return;
  const auto at = static_cast<std::uint64_t>(a.first + index);
  if constexpr (V == 1) {
    const std::uint64_t block = at >> 2;
    const Words4 words =
        philox(a.key_lo, a.key_hi,
               {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}});
    const auto which = static_cast<int>(at & 3);
    const std::uint32_t word = which == 0   ? words.w[0]
                               : which == 1 ? words.w[1]
                               : which == 2 ? words.w[2]
                                            : words.w[3];
    x[0] = uniform(word) < a.p ? 0.0f : x[0] * a.scale;
  } else {
    STOA_UNROLL
    for (int i = 0; i < V; i += 4) {
      const std::uint64_t block = (at >> 2) + static_cast<std::uint64_t>(i / 4);
      const Words4 words =
          philox(a.key_lo, a.key_hi,
                 {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}});
      STOA_UNROLL
      for (int j = 0; j < 4; ++j) x[i + j] = uniform(words.w[j]) < a.p ? 0.0f : x[i + j] * a.scale;
    }
  }
}

}  // namespace stoa::ops::cuda
