// Keys and values of a tile, from wherever they lie.
#pragma once

#include "ops/cuda/kernels/attention_geometry.h"
#include "ops/cuda/kernels/attention_tiles.h"
#include "ops/cuda/kernels/cache_numbers.h"

namespace stoa::ops::cuda {

// The head's row of a key in a cache.
STOA_DEVICE const void* cached_row(const AttentionArgs& a, const HeadRows& cache, const Segment& segment,
                                   int group, int key) {
  const std::int64_t at = segment.key_row(a, group, key) * a.head_width;
  const std::int64_t bytes = a.cache == CacheForm::kF32 ? 4 : a.cache == CacheForm::kCodes ? 1 : 2;
  return static_cast<const std::uint8_t*>(cache.data) + at * bytes;
}

// As HeadTile::load(): kRows keys of a segment from `key` on. kBlocks: they are in blocks of a cache. Where
// they are converted, a thread asks for kAtOnce pieces at once.
template <bool kBlocks, int kRows, int kAtOnce, class T, int kMost>
STOA_DEVICE void load_keys(const HeadTile<T, kMost>& tile, const AttentionArgs& a, T* to,
                           const HeadRows& from, const Segment& segment, int group, int key) {
  if constexpr (!kBlocks) {
    tile.template load<kRows>(a, to, from, segment.k_begin, group, key, segment.keys);
  } else {
    const auto has = [&](int r) { return key + r < segment.keys; };
    const auto row_at = [&](int r) { return cached_row(a, from, segment, group, key + r); };
    constexpr CacheForm kSame = std::is_same_v<T, bf16> ? CacheForm::kBF16 : CacheForm::kF16;
    if (a.cache == kSame)
      return tile.template load_rows<kRows>(to, a.cache_wide, from.data, has,
                                            [&](int r) { return static_cast<const T*>(row_at(r)); });
    with_form(a.cache, [&](auto form) {
      constexpr CacheForm kForm = decltype(form)::value;
      if constexpr (kForm != CacheForm::kF32 && kForm != kSame) {
        if (!a.cache_wide)
          return tile.template for_pieces<kRows>(to, [&](T* at, int r, int c) {
            store16(at, has(r) && c < a.d ? cached_pack<kForm, T>(row_at(r), c, a.d) : Bytes16{});
          });
        constexpr int kPieces = kRows * HeadTile<T, kMost>::kChunks / kTileThreads;
        for (int first = 0; first < kPieces; first += kAtOnce) {
          CachedPack<kForm> packs[kAtOnce];
          const auto for_each = [&](const auto& body) {
            STOA_UNROLL
            for (int j = 0; j < kAtOnce; ++j)
              if (first + j < kPieces)
                tile.piece(to, (first + j) * kTileThreads + tile.t.index(),
                           [&](T* at, int r, int c) { body(packs[j], at, r, c); });
          };
          for_each([&](auto& pack, T*, int r, int c) {
            if (has(r) && c < a.d) pack.load(row_at(r), c, a.d);
          });
          for_each([](const auto& pack, T* at, int, int) { store16(at, pack.template as<T>()); });
        }
      }
    });
  }
}

}  // namespace stoa::ops::cuda
