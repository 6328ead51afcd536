// Keys and values of a tile, from wherever they lie.
#pragma once

#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/attention_tiles.h"
#include "ops/cuda/kernels/cache_numbers.h"

namespace stoa::ops::cuda {

// The head's row of a key in a cache.
STOA_DEVICE const void* cached_row(const AttentionArgs& a, const HeadRows& cache, const Segment& segment,
                                   int group, int key) {
  const std::int64_t at = (segment.key_row(a, key) * a.groups + group) * a.head_width;
  const std::int64_t bytes = a.cache == CacheForm::kF32 ? 4 : a.cache == CacheForm::kCodes ? 1 : 2;
  return static_cast<const std::uint8_t*>(cache.data) + at * bytes;
}

// As HeadTile::load(): kRows keys of a segment from `key` on. kBlocks: they are in blocks of a cache.
template <bool kBlocks, int kRows, class T, int kMost>
STOA_DEVICE void load_keys(const HeadTile<T, kMost>& tile, const AttentionArgs& a, T* to,
                           const HeadRows& from, const Segment& segment, int group, int key) {
  if constexpr (!kBlocks) {
    tile.template load<kRows>(a, to, from, segment.k_begin, group, key, segment.keys);
  } else {
    const auto has = [&](int r) { return key + r < segment.keys; };
    const auto row_at = [&](int r) { return cached_row(a, from, segment, group, key + r); };
    constexpr CacheForm kSame = std::is_same_v<T, bf16> ? CacheForm::kBF16 : CacheForm::kF16;
    if (a.cache == kSame)
      tile.template load_rows<kRows>(to, a.cache_wide, from.data, has,
                                     [&](int r) { return static_cast<const T*>(row_at(r)); });
    else
      tile.template for_pieces<kRows>(to, [&](T* at, int r, int c) {
        const bool given = has(r) && c < a.d;
        store16(at, given ? cached_pack<T>(a.cache, row_at(r), c, a.d, a.cache_wide) : Bytes16{});
      });
  }
}

}  // namespace stoa::ops::cuda
