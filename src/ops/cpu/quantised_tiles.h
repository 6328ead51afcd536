// Products with quantised matrices on the tiles of AMX, which are those of a processor or emulated
// (tile_semantics.h).
//
// A group of 16 rows is unpacked once, into rows of a tile: words of four columns. A tile of 16 tokens times
// that gives 16 x 16 integers, the sums of a unit, which are scaled and added as the vectors' kernel adds
// them. Two groups and two tiles of tokens at a time: each is loaded once for two products.
//
// Codes of 4 bits are there twice, first times kFineCodes: one product with the coarse and the fine codes of
// the tokens then gives the whole sum. Others are multiplied with the coarse and with the fine codes.
#pragma once

#include "ops/cpu/quantised_store.h"
#include "ops/cpu/tile_semantics.h"

namespace stoa::ops::cpu::STOA_ISA {

#if STOA_ISA_LEVEL >= 2

// How the units of a format with one scale become operands.
template <WeightFormat kFormat>
struct UnitOperands {
  static constexpr FormatTraits kTraits = traits_of(kFormat);
  static constexpr bool kWhole = kTraits.high_bits == 0 && !whole_bytes(kTraits);
  // Unsigned codes times kFineCodes need all eight bits.
  static constexpr bool kUnsigned = kWhole && kTraits.zero == 0;
  static constexpr int kProducts = kWhole ? 1 : 2, kTokenBytes = kWhole ? kTokenUnit : kUnit,
                       kRows = kTokenBytes / 4, kBytes = kRows * 64;  // of a group's unit
};

// Tiles 0 … 3 are sums, 4 and 5 tokens, 6 and 7 weights.
template <WeightFormat kFormat>
constexpr TileConfiguration unit_tiles() {
  using Operands = UnitOperands<kFormat>;
  TileConfiguration c;
  c.palette = 1;
  for (int t = 0; t < 8; ++t) {
    c.rows[t] = static_cast<std::uint8_t>(t < 6 ? kTileTokens : Operands::kRows);
    c.row_bytes[t] = static_cast<std::uint16_t>(t == 4 || t == 5 ? Operands::kTokenBytes : 64);
  }
  return c;
}

// What products_of_tiles() keeps of a group.
struct UnpackedGroup {
  UnpackedGroup(std::byte* memory, std::int64_t units)
      : floats(reinterpret_cast<float*>(memory)),
        codes(reinterpret_cast<std::int8_t*>(memory + units * 2 * kGroup * 4)) {}
  float* floats;       // [units, 2, 16]: scales, minima
  std::int8_t* codes;  // [units, rows of a tile, 64]
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
STOA_INLINE void unpack_group(const std::byte* group, std::int64_t bytes, const std::byte* end,
                              std::int64_t units, const UnpackedGroup& to) {
  using Operands = UnitOperands<kFormat>;
  constexpr FormatTraits kTraits = traits_of(kFormat);
  UnitReader<kFormat> reader(group, units, 0);
  WeightUnit unit;
  std::int8_t* codes = to.codes;
  float* floats = to.floats;
  for (std::int64_t u = 0, b = 0; u < units; ++b) {
    reader.enter(b);
    for (int j = 0; j < kTraits.block_units; ++j, ++u, floats += 2 * kGroup, codes += Operands::kBytes) {
      fetch_ahead(group + u * (bytes / units), bytes / units, end);
      reader.read(u, j, unit);
#pragma GCC unroll 8
      for (int g = 0; g < kUnitWords; ++g) {
        const U x = signed_codes<kFormat>(unit.codes[g]);
        std::int8_t* const last = codes + Operands::kBytes - (kUnitWords - g) * 64;
        std::memcpy(last, &x, sizeof x);
        if constexpr (!Operands::kWhole) continue;
        static_assert(kFineCodes == 16);
        const U coarse = (x << 4) & 0xf0f0f0f0u;  // bytes times 16
        std::memcpy(last - kUnitWords * 64, &coarse, sizeof coarse);
      }
      store(floats, unit.scales[0]);
      if constexpr (kTraits.minimum) store(floats + kGroup, unit.minimum);
    }
  }
}

constexpr int kSums = kTileTokens * kGroup;

// Two groups and two tiles of tokens at most: pair 2 g + t is that of group g and tokens t.
template <WeightFormat kFormat, int kGroups, int kTiles, class Tiles>
class TileProducts {
 public:
  TileProducts(const WeightsJob& job, const UnpackedGroup* groups, std::int64_t tile, Tiles& tiles)
      : x_(job.x), groups_(groups), tile_(tile), tiles_(tiles) {}

  void run() {
    for (std::int64_t b = 0; b < x_.blocks(); ++b) {
      for (std::int64_t u = 0; u < units_of(b); ++u) multiply(b * kScaledUnits + u, products_[u]);
      for (int g = 0; g < kGroups; ++g)
        for (int t = 0; t < kTiles; ++t) add(b, g, t);
    }
  }
  void store(const WeightsJob& job, std::int64_t first_group) const {
    for (int g = 0; g < kGroups; ++g)
      for (int t = 0; t < kTiles; ++t) {
        F y[kTileTokens];
        for (int i = 0; i < kTileTokens; ++i) y[i] = load(total_[2 * g + t] + i * kGroup);
        store_sums(job, (first_group + g) * kGroup, (tile_ + t) * kTileTokens, kTileTokens, y);
      }
  }

 private:
  using Operands = UnitOperands<kFormat>;

  // A sum of a unit for each product and pair.
  using UnitSums = std::int32_t[Operands::kProducts][4][kSums];

  std::int64_t units_of(std::int64_t block) const {
    return least(kScaledUnits, x_.units - block * kScaledUnits);
  }
  // The coarse codes, behind which the fine ones are.
  const std::int8_t* tokens(std::int64_t unit, int t) const {
    return x_.codes + ((tile_ + t) * x_.units + unit) * kTileTokens * kTokenUnit;
  }
  const std::int8_t* codes(std::int64_t unit, int g) const {
    return groups_[g].codes + unit * Operands::kBytes;
  }

  [[gnu::always_inline]] void multiply(std::int64_t unit, UnitSums& to) {
    tiles_.template load<6>(codes(unit, 0), 64);
    if constexpr (kGroups == 2) tiles_.template load<7>(codes(unit, 1), 64);
#pragma GCC unroll 2
    for (int p = 0; p < Operands::kProducts; ++p) multiply_tokens(unit, p * kUnit, to[p]);
  }
  // With the codes that begin `at` bytes into a token's.
  [[gnu::always_inline]] void multiply_tokens(std::int64_t unit, int at, std::int32_t (&to)[4][kSums]) {
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
  template <int kSum, int kTokens, int kCodes>
  [[gnu::always_inline]] void multiply_one() {
    tiles_.template zero<kSum>();
    tiles_.template multiply_add_bytes<kSum, kTokens, kCodes, Operands::kUnsigned>();
  }

  [[gnu::always_inline]] void add(std::int64_t block, int g, int t) {
    if (units_of(block) == kScaledUnits)
      add_units<kScaledUnits>(block, g, t);
    else
      add_units<1>(block, g, t);
  }

  template <int kUnits>
  [[gnu::always_inline]] void add_units(std::int64_t block, int g, int t) {
    static_assert(kScaledUnits == 2);
    const std::int64_t unit = block * kScaledUnits;
    const float* floats = groups_[g].floats + unit * 2 * kGroup;
    F factors[kUnits], minima[kUnits];
#pragma GCC unroll 2
    for (int u = 0; u < kUnits; ++u) {
      factors[u] = load(floats + 2 * u * kGroup);
      minima[u] = load(floats + (2 * u + 1) * kGroup);
    }
    const float *scales = x_.scales + ((tile_ + t) * x_.blocks() + block) * kTileTokens,
                *code_sums = x_.sums + ((tile_ + t) * x_.units + unit) * kTileTokens;
    const int pair = 2 * g + t;
    for (int i = 0; i < kTileTokens; ++i) {
      F sum{};
#pragma GCC unroll 2
      for (int u = 0; u < kUnits; ++u) {
        I whole;
        std::memcpy(&whole, products_[u][0][pair] + i * kGroup, sizeof whole);
        if constexpr (Operands::kProducts == 2) {
          I fine;
          std::memcpy(&fine, products_[u][1][pair] + i * kGroup, sizeof fine);
          whole = whole_code(whole, fine);
        }
        sum = fma(__builtin_convertvector(whole, F), factors[u], sum);
        if constexpr (Operands::kTraits.minimum)
          sum = fma(minima[u], splat(code_sums[u * kTileTokens + i]), sum);
      }
      float* const total = total_[pair] + i * kGroup;
      const F before = block == 0 ? F{} : load(total);
      cpu::STOA_ISA::store(total, fma(sum, splat(scales[i]), before));
    }
  }

  const TokenCodes& x_;
  const UnpackedGroup* groups_;
  const std::int64_t tile_;
  Tiles& tiles_;
  alignas(64) UnitSums products_[kScaledUnits];
  alignas(64) float total_[4][kSums];
};

// All tokens times kGroups groups from `first` on.
template <WeightFormat kFormat, int kGroups, class Tiles>
void multiply_groups(const WeightsJob& job, std::int64_t first, Tiles& tiles) {
  const std::int64_t bytes = job.x.units * kUnpackedUnit;
  const UnpackedGroup groups[2] = {UnpackedGroup(job.unpacked, job.x.units),
                                   UnpackedGroup(job.unpacked + bytes, job.x.units)};
  for (int g = 0; g < kGroups; ++g)
    unpack_group<kFormat>(job.groups + (first + g) * job.group_bytes, job.group_bytes, job.fetched,
                          job.x.units, groups[g]);
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
  dispatch_format(job.format, [&]<WeightFormat kFormat>() {
    if constexpr (traits_of(kFormat).parts == 1) {
      Tiles tiles(unit_tiles<kFormat>());
      std::int64_t g = job.first;
      for (; g + 1 < job.end; g += 2) multiply_groups<kFormat, 2>(job, g, tiles);
      if (g < job.end) multiply_groups<kFormat, 1>(job, g, tiles);
    }
  });
}

#endif

}  // namespace stoa::ops::cpu::STOA_ISA
