// Products with quantised matrices on the tiles of AMX, which are those of a processor or emulated
// (tile_semantics.h).
//
// A group of 16 rows is unpacked once, into signed codes: eight rows of a tile are the words of 32 columns.
// Tiles of the coarse and of the fine codes of 16 tokens times that give 16 x 16 integers, which are scaled
// and added as the vectors' kernel adds them, while the next products are under way. Two groups and two tiles
// of tokens at a time: each is loaded once for two products.
#pragma once

#include "ops/cpu/quantised_store.h"
#include "ops/cpu/tile_semantics.h"

namespace stoa::ops::cpu::STOA_ISA {

#if STOA_ISA_LEVEL >= 2

// Tiles 0 … 3 are sums, 4 and 5 tokens, 6 and 7 weights.
constexpr TileConfiguration unit_tiles() {
  TileConfiguration c;
  c.palette = 1;
  for (int t = 0; t < 8; ++t) {
    c.rows[t] = static_cast<std::uint8_t>(t < 6 ? kTileTokens : kUnitWords);
    c.row_bytes[t] = static_cast<std::uint16_t>(t == 4 || t == 5 ? kUnit : 64);
  }
  return c;
}

// What products_of_tiles() keeps of a group of units with one scale.
struct UnpackedGroup {
  UnpackedGroup(std::byte* memory, std::int64_t units)
      : codes(reinterpret_cast<std::int8_t*>(memory)),
        floats(reinterpret_cast<float*>(memory + units * kGroup * kUnit)) {}
  std::int8_t* codes;  // [units, 8, 64]
  float* floats;       // [units, 2, 16]: scales, minima
};

// code - zero, or the code of those that are below 128 anyway.
template <WeightFormat kFormat>
STOA_INLINE U signed_codes(U codes) {
  constexpr int kZero = traits_of(kFormat).zero;
  if constexpr (kZero == 0) return codes;
  return reinterpret_cast<U>(
      _mm512_sub_epi8(reinterpret_cast<__m512i>(codes), _mm512_set1_epi8(static_cast<char>(kZero))));
}

// Inlined, as GCC 12 takes it for a function without effects in one format, and drops the call.
template <WeightFormat kFormat>
STOA_INLINE void unpack_group(const std::byte* group, std::int64_t units, const UnpackedGroup& to) {
  constexpr FormatTraits kTraits = traits_of(kFormat);
  UnitReader<kFormat> reader(group, units, 0);
  WeightUnit unit;
  std::int8_t* codes = to.codes;
  float* floats = to.floats;
  for (std::int64_t u = 0, b = 0; u < units; ++b) {
    reader.enter(b);
    for (int j = 0; j < kTraits.block_units; ++j, ++u, floats += 2 * kGroup) {
      reader.read(u, j, unit);
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g, codes += 64) {
        const U x = signed_codes<kFormat>(unit.codes[g]);
        std::memcpy(codes, &x, sizeof x);
      }
      store(floats, unit.scales[0]);
      if constexpr (kTraits.minimum) store(floats + kGroup, unit.minimum);
    }
  }
}

constexpr int kProducts = kTileTokens * kGroup;

// Two groups and two tiles of tokens at most: tile of sums 2 g + t is that of group g and tokens t.
template <WeightFormat kFormat, int kGroups, int kTiles, class Tiles>
class TileProducts {
 public:
  TileProducts(const WeightsJob& job, const UnpackedGroup* groups, std::int64_t tile, Tiles& tiles)
      : x_(job.x), groups_(groups), tile_(tile), tiles_(tiles) {}

  void run() {
    std::memset(sums_, 0, sizeof sums_);
    multiply(0, products_[0]);
    for (std::int64_t unit = 0; unit < x_.units; ++unit) {
      if (unit + 1 < x_.units) multiply(unit + 1, products_[(unit + 1) % 2]);
      add(unit, products_[unit % 2]);
    }
  }
  void store(const WeightsJob& job, std::int64_t first_group) const {
    for (int g = 0; g < kGroups; ++g)
      for (int t = 0; t < kTiles; ++t) {
        F y[kTileTokens];
        for (int i = 0; i < kTileTokens; ++i) y[i] = load(sums_[2 * g + t] + i * kGroup);
        store_sums(job, (first_group + g) * kGroup, (tile_ + t) * kTileTokens, kTileTokens, y);
      }
  }

 private:
  static constexpr FormatTraits kTraits = traits_of(kFormat);

  // Sums of one unit, of which tile 2 g + t is as in run().
  struct Products {
    std::int32_t coarse[4][kProducts], fine[4][kProducts];
  };

  // The coarse codes, behind which the fine ones are.
  const std::int8_t* tokens(std::int64_t unit, int t) const {
    return x_.codes + ((tile_ + t) * x_.units + unit) * kTileTokens * kTokenUnit;
  }
  const std::int8_t* codes(std::int64_t unit, int g) const {
    return groups_[g].codes + unit * kGroup * kUnit;
  }

  [[gnu::always_inline]] void multiply(std::int64_t unit, Products& to) {
    tiles_.template load<6>(codes(unit, 0), 64);
    if constexpr (kGroups == 2) tiles_.template load<7>(codes(unit, 1), 64);
    multiply_tokens(unit, 0, to.coarse);
    multiply_tokens(unit, kUnit, to.fine);
  }
  // With the codes that begin `at` bytes into a token's.
  [[gnu::always_inline]] void multiply_tokens(std::int64_t unit, int at, std::int32_t (&to)[4][kProducts]) {
    tiles_.template load<4>(tokens(unit, 0) + at, kTokenUnit);
    multiply_one<0, 4, 6>();
    if constexpr (kTiles == 2) {
      tiles_.template load<5>(tokens(unit, 1) + at, kTokenUnit);
      multiply_one<1, 5, 6>();
    }
    if constexpr (kGroups == 2) multiply_one<2, 4, 7>();
    if constexpr (kGroups == 2 && kTiles == 2) multiply_one<3, 5, 7>();
    tiles_.template store<0>(to[0], 64);
    if constexpr (kTiles == 2) tiles_.template store<1>(to[1], 64);
    if constexpr (kGroups == 2) tiles_.template store<2>(to[2], 64);
    if constexpr (kGroups == 2 && kTiles == 2) tiles_.template store<3>(to[3], 64);
  }
  template <int kSums, int kTokens, int kCodes>
  [[gnu::always_inline]] void multiply_one() {
    tiles_.template zero<kSums>();
    tiles_.template multiply_add_bytes<kSums, kTokens, kCodes>();
  }

  [[gnu::always_inline]] void add(std::int64_t unit, const Products& from) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      const float* floats = groups_[g].floats + unit * 2 * kGroup;
      const F scale = load(floats), minimum = load(floats + kGroup);
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t) {
        const std::int64_t at = ((tile_ + t) * x_.units + unit) * kTileTokens;
        const float *scales = x_.scales + at, *scaled_sums = x_.scaled_sums + at;
        float* sums = sums_[2 * g + t];
#pragma GCC unroll 16
        for (int i = 0; i < kTileTokens; ++i) {
          I coarse, fine;
          std::memcpy(&coarse, from.coarse[2 * g + t] + i * kGroup, sizeof coarse);
          std::memcpy(&fine, from.fine[2 * g + t] + i * kGroup, sizeof fine);
          F sum = fma(__builtin_convertvector(whole_code(coarse, fine), F), scale * splat(scales[i]),
                      load(sums + i * kGroup));
          if constexpr (kTraits.minimum) sum = fma(minimum, splat(scaled_sums[i]), sum);
          cpu::STOA_ISA::store(sums + i * kGroup, sum);
        }
      }
    }
  }

  const TokenCodes& x_;
  const UnpackedGroup* groups_;
  const std::int64_t tile_;
  Tiles& tiles_;
  alignas(64) Products products_[2];
  alignas(64) float sums_[4][kProducts];
};

// All tokens times kGroups groups from `first` on.
template <WeightFormat kFormat, int kGroups, class Tiles>
void multiply_groups(const WeightsJob& job, std::int64_t first, Tiles& tiles) {
  const std::int64_t bytes = job.x.units * kUnpackedUnit;
  const UnpackedGroup groups[2] = {UnpackedGroup(job.unpacked, job.x.units),
                                   UnpackedGroup(job.unpacked + bytes, job.x.units)};
  for (int g = 0; g < kGroups; ++g)
    unpack_group<kFormat>(job.groups + (first + g) * job.group_bytes, job.x.units, groups[g]);
  const std::int64_t count = (job.tokens + kTileTokens - 1) / kTileTokens;
  const auto tokens = [&]<int kTiles>(std::int64_t tile) {
    TileProducts<kFormat, kGroups, kTiles, Tiles> products(job, groups, tile, tiles);
    products.run();
    products.store(job, first);
  };
  std::int64_t tile = 0;
  for (; tile + 1 < count; tile += 2) tokens.template operator()<2>(tile);
  if (tile < count) tokens.template operator()<1>(tile);
}

template <class Tiles>
void products_of_tiles(const WeightsJob& job) {
  Tiles tiles;
  dispatch_format(job.format, [&]<WeightFormat kFormat>() {
    if constexpr (traits_of(kFormat).parts == 1) {
      std::int64_t g = job.first;
      for (; g + 1 < job.end; g += 2) multiply_groups<kFormat, 2>(job, g, tiles);
      if (g < job.end) multiply_groups<kFormat, 1>(job, g, tiles);
    }
  });
}

#endif

}  // namespace stoa::ops::cpu::STOA_ISA
