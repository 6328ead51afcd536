// What kernels read of a group of 16 rows (quant/matrix_layout.h). Codes come as words of four neighbouring
// columns of a row, as unsigned bytes: what they stand for, plus FormatTraits::zero.
#pragma once

#include "ops/cuda/kernels/thread.h"
#include "ops/quantised_formats.h"

namespace stoa::ops::cuda {

constexpr int kGroupRows = 16, kUnitColumns = 32, kWordRow = 4 * kGroupRows;  // bytes of a word of every row

// FormatTraits as numbers that device code may use.
template <WeightFormat kFormat>
struct WeightTraits {
  static constexpr FormatTraits kAll = kFormatTraits[static_cast<int>(kFormat)];
  static constexpr int kLowBits = kAll.low_bits, kHighBits = kAll.high_bits, kZero = kAll.zero;
  static constexpr int kBlockUnits = kAll.block_units, kBlockBytes = kAll.scale_bytes * kGroupRows;
  static constexpr int kParts = kAll.parts;
  static constexpr bool kMinimum = kAll.minimum, kLooksUp = kAll.looks_up;
  // Bytes of 32 columns of a group.
  static constexpr int kLowBytes = kGroupRows * kUnitColumns * kLowBits / 8,
                       kHighBytes = kGroupRows * kUnitColumns * kHighBits / 8;
};

// Four of the sixteen values that codes of 4 bits stand for, plus 128.
template <WeightFormat kFormat, int kFirst>
constexpr std::uint32_t values_from() {
  std::uint32_t word = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const int value = (*kFormatTraits[static_cast<int>(kFormat)].values)[kFirst + i];
    word |= static_cast<std::uint32_t>(value + 128) << (8 * i);
  }
  return word;
}
template <WeightFormat kFormat, int kFirst>
inline constexpr std::uint32_t kValuesFrom = values_from<kFormat, kFirst>();

// The values of the low four bits of the bytes of `pairs` in out[0], of the high ones in out[1].
template <WeightFormat kFormat>
STOA_DEVICE void look_up(std::uint32_t pairs, std::uint32_t (&out)[2]) {
  std::uint32_t found[2];  // of the nibbles of either half of `pairs`, in order
  STOA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t nibbles = pairs >> (16 * half);
    const std::uint32_t below = select_bytes(kValuesFrom<kFormat, 0>, kValuesFrom<kFormat, 4>, nibbles),
                        above = select_bytes(kValuesFrom<kFormat, 8>, kValuesFrom<kFormat, 12>, nibbles);
    found[half] = select_bytes(below, above, 0x3210u | (nibbles & 0x8888u) >> 1);
  }
  out[0] = select_bytes(found[0], found[1], 0x6420u);
  out[1] = select_bytes(found[0], found[1], 0x7531u);
}

// Sections of a group.
template <WeightFormat kFormat>
struct WeightGroup {
  const std::uint8_t *low, *high, *scales;
  std::int64_t units;

  STOA_DEVICE WeightGroup(const std::uint8_t* group, std::int64_t of_units)
      : low(group),
        high(low + of_units * WeightTraits<kFormat>::kLowBytes),
        scales(high + of_units * WeightTraits<kFormat>::kHighBytes),
        units(of_units) {}
};

STOA_DEVICE void load_words(const void* from, std::uint32_t (&out)[1]) { out[0] = load4(from); }
STOA_DEVICE void load_words(const void* from, std::uint32_t (&out)[2]) { load8(from, out); }
STOA_DEVICE void load_words(const void* from, std::uint32_t (&out)[4]) {
  const Bytes16 v = load16(from);
  STOA_UNROLL
  for (int i = 0; i < 4; ++i) out[i] = v.words[i];
}

// Columns 4 v to 4 v + 3 of a unit, and those 16 behind them, of neighbouring rows: `vector` v is 0 to 3.
template <WeightFormat kFormat, int kRows>
struct RowCodes {
  using Traits = WeightTraits<kFormat>;
  static constexpr int kLows = Traits::kLowBits / 4, kHighs = Traits::kHighBits;
  std::uint32_t low[kLows][kRows], high[kHighs > 0 ? kHighs : 1][kRows];

  // All of code 0.
  STOA_DEVICE void clear() {
    STOA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      STOA_UNROLL
      for (int w = 0; w < kLows; ++w) low[w][r] = 0;
      high[0][r] = 0;
      if constexpr (kHighs == 2) high[1][r] = 0;
    }
  }
  STOA_DEVICE void load(const WeightGroup<kFormat>& group, std::int64_t unit, int vector, int first_row) {
    const std::uint8_t* at = group.low + unit * Traits::kLowBytes + vector * kWordRow + 4 * first_row;
    STOA_UNROLL
    for (int w = 0; w < kLows; ++w) load_words(at + 4 * w * kWordRow, low[w]);
    at = group.high + unit * Traits::kHighBytes + 4 * first_row;
    STOA_UNROLL
    for (int w = 0; w < kHighs; ++w) load_words(at + w * kWordRow, high[w]);
  }
  STOA_DEVICE void split(int r, int vector, std::uint32_t (&codes)[2]) const {
    if constexpr (Traits::kLowBits == 8) {
      codes[0] = low[0][r], codes[1] = low[1][r];
    } else if constexpr (Traits::kLooksUp) {
      look_up<kFormat>(low[0][r], codes);
    } else {
      codes[0] = low[0][r] & 0x0f0f0f0fu, codes[1] = low[0][r] >> 4 & 0x0f0f0f0fu;
    }
    if constexpr (kHighs == 1) {
      codes[0] |= (high[0][r] >> vector & 0x01010101u) << 4;
      codes[1] |= (high[0][r] >> (vector + 4) & 0x01010101u) << 4;
    }
    if constexpr (kHighs == 2) {
      codes[0] |= (high[0][r] >> (2 * vector) & 0x03030303u) << 4;
      codes[1] |= (high[1][r] >> (2 * vector) & 0x03030303u) << 4;
    }
  }
};

// Half `which` of two that stand in a word.
STOA_DEVICE float half_in(std::uint32_t word, int which) {
  f16 x;
  x.bits = static_cast<std::uint16_t>(word >> (16 * which));
  return widen(x);
}

// Scales and minima of rows 2 p and 2 p + 1 in units [unit, unit + kUnits), which are in one block or are
// blocks themselves.
template <WeightFormat kFormat, int kUnits>
class PairScales {
 public:
  using Traits = WeightTraits<kFormat>;

  STOA_DEVICE void load(const WeightGroup<kFormat>& group, std::int64_t unit, int pair) {
    if constexpr (Traits::kBlockUnits == 1) {
      STOA_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const std::uint8_t* at = group.scales + (unit + u) * Traits::kBlockBytes;
        if constexpr (kFormat == WeightFormat::kMXFP4)
          d_[u] = bytes_at(at, pair);
        else
          d_[u] = halves_at(at, pair);
        if constexpr (Traits::kMinimum) dmin_[u] = halves_at(at + kHalves, pair);
      }
    } else {
      const std::uint8_t* at = group.scales + unit / Traits::kBlockUnits * Traits::kBlockBytes;
      first_ = static_cast<int>(unit % Traits::kBlockUnits);
      if constexpr (kFormat == WeightFormat::kQ6_K) {
        STOA_UNROLL
        for (int u = 0; u < kUnits; ++u) {
          STOA_UNROLL
          for (int part = 0; part < 2; ++part)
            parts_[2 * u + part][0] = bytes_at(at + (2 * (first_ + u) + part) * kGroupRows, pair);
        }
        d_[0] = halves_at(at + 16 * kGroupRows, pair);
      } else {
        d_[0] = halves_at(at, pair);
        dmin_[0] = halves_at(at + kHalves, pair);
        STOA_UNROLL
        for (int w = 0; w < kWords; ++w) load_words(at + 2 * kHalves + w * kWordRow + 8 * pair, parts_[w]);
      }
    }
  }

  // The scale of row 2 p + r in unit `unit` + u; in columns [16 part, 16 part + 16) where each half has a
  // scale.
  STOA_DEVICE float scale(int r, int u, int part) const {
    if constexpr (kFormat == WeightFormat::kMXFP4) {
      const std::uint32_t e = d_[u] >> (8 * r) & 255u;  // 2^(e - 128), quant::half_power
      return float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    } else if constexpr (Traits::kBlockUnits == 1) {
      return half_in(d_[u], r);
    } else if constexpr (kFormat == WeightFormat::kQ6_K) {
      return half_in(d_[0], r) *
             static_cast<float>(static_cast<std::int8_t>(parts_[2 * u + part][0] >> (8 * r)));
    } else if constexpr (kFormat == WeightFormat::kIQ4_XS) {
      const int j = first_ + u;
      const std::uint32_t low = parts_[0][r] >> (4 * j) & 15u, high = dmin_[0] >> (16 * r + 2 * j) & 3u;
      return half_in(d_[0], r) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    } else {
      const int j = first_ + u;
      const std::uint32_t words = j < 4 ? parts_[0][r] & 0x3f3f3f3fu
                                        : (parts_[2][r] & 0x0f0f0f0fu) | (parts_[0][r] >> 2 & 0x30303030u);
      return half_in(d_[0], r) * static_cast<float>(words >> (8 * (j % 4)) & 255u);
    }
  }
  STOA_DEVICE float minimum(int r, int u) const {
    if constexpr (Traits::kBlockUnits == 1) {
      return half_in(dmin_[u], r);
    } else {
      const int j = first_ + u;
      const std::uint32_t words = j < 4
                                      ? parts_[1][r] & 0x3f3f3f3fu
                                      : (parts_[2][r] >> 4 & 0x0f0f0f0fu) | (parts_[1][r] >> 2 & 0x30303030u);
      return -(half_in(dmin_[0], r) * static_cast<float>(words >> (8 * (j % 4)) & 255u));
    }
  }

 private:
  static constexpr int kHalves = 2 * kGroupRows;  // bytes of a half of every row
  static constexpr bool kBlocks = Traits::kBlockUnits == 1;
  static constexpr int kWords = kFormat == WeightFormat::kIQ4_XS ? 1 : 3;

  STOA_DEVICE static std::uint32_t halves_at(const std::uint8_t* at, int pair) {
    return load4(at + 4 * pair);
  }
  STOA_DEVICE static std::uint32_t bytes_at(const std::uint8_t* at, int pair) {
    return *reinterpret_cast<const std::uint16_t*>(at + 2 * pair);
  }

  std::uint32_t d_[kBlocks ? kUnits : 1], dmin_[kBlocks ? kUnits : 1];
  // Q4_K, Q5_K: the words of scales; IQ4_XS: their low bits; Q6_K: a byte for each of two rows.
  std::uint32_t parts_[kBlocks ? 1 : kFormat == WeightFormat::kQ6_K ? 2 * kUnits : kWords][2];
  int first_ = 0;
};

}  // namespace stoa::ops::cuda
