#include "quant/matrix_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "quant/block_bytes.h"

namespace stoa::quant {
namespace {

using Affine = MatrixLayout::Affine;

constexpr int kWidestBlock = 256, kLine = 64, kWord = 4, kVectors = kUnitColumns / kWord;

// A half, or four bytes, of every row of a group: one after the other.
void put_half(const std::byte* from, int row, std::byte* sixteen) { std::memcpy(sixteen + 2 * row, from, 2); }
void put_word(const std::byte* from, int row, std::byte* sixteen) { std::memcpy(sixteen + 4 * row, from, 4); }
float half_at(const std::byte* sixteen, int row) { return load_half(sixteen + 2 * row); }
constexpr int kHalves = 2 * kGroupRows, kWords = 4 * kGroupRows;  // bytes

// Codes of 4 bits: byte j has number j and number j + count / 2.
void split_nibbles(const std::byte* pairs, int count, std::uint8_t* codes) {
  for (int j = 0; j < count / 2; ++j) {
    codes[j] = static_cast<std::uint8_t>(byte_at(pairs, j) & 15);
    codes[j + count / 2] = static_cast<std::uint8_t>(byte_at(pairs, j) >> 4);
  }
}
void add_fifth_bits(std::uint32_t bits, std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(codes[i] | ((bits >> i) & 1u) << 4);
}

void q8_0_codes(const std::byte* block, std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(load<std::int8_t>(block + 2 + i) + 128);
}
void q4_0_codes(const std::byte* block, std::uint8_t* codes) { split_nibbles(block + 2, 32, codes); }
void q4_1_codes(const std::byte* block, std::uint8_t* codes) { split_nibbles(block + 4, 32, codes); }
void q5_0_codes(const std::byte* block, std::uint8_t* codes) {
  split_nibbles(block + 6, 32, codes);
  add_fifth_bits(load<std::uint32_t>(block + 2), codes);
}
void q5_1_codes(const std::byte* block, std::uint8_t* codes) {
  split_nibbles(block + 8, 32, codes);
  add_fifth_bits(load<std::uint32_t>(block + 4), codes);
}

void put_scale(const std::byte* block, int row, std::byte* group) { put_half(block, row, group); }
void put_scale_and_minimum(const std::byte* block, int row, std::byte* group) {
  put_half(block, row, group);
  put_half(block + 2, row, group + kHalves);
}
Affine one_scale(const std::byte* group, int row, int) { return {half_at(group, row), 0}; }
Affine scale_and_minimum(const std::byte* group, int row, int) {
  return {half_at(group, row), half_at(group + kHalves, row)};
}

// Q4_K, Q5_K: halves d and dmin, then the three words of scales.
void put_part_scales(const std::byte* block, int row, std::byte* group) {
  put_scale_and_minimum(block, row, group);
  for (int w = 0; w < 3; ++w) put_word(block + 4 + 4 * w, row, group + 2 * kHalves + w * kWords);
}
Affine part_affine(const std::byte* group, int row, int k) {
  std::byte scales[12];
  for (int w = 0; w < 3; ++w) std::memcpy(scales + 4 * w, group + 2 * kHalves + w * kWords + 4 * row, 4);
  const auto [sc, m] = part_scale(scales, k / 2);
  return {half_at(group, row) * static_cast<float>(sc),
          -(half_at(group + kHalves, row) * static_cast<float>(m))};
}
void q4_k_codes(const std::byte* block, std::uint8_t* codes) {
  for (int c = 0; c < 4; ++c) split_nibbles(block + 16 + 32 * c, 64, codes + 64 * c);
}
void q5_k_codes(const std::byte* block, std::uint8_t* codes) {
  for (int c = 0; c < 4; ++c) split_nibbles(block + 48 + 32 * c, 64, codes + 64 * c);
  for (int i = 0; i < 256; ++i)
    codes[i] = static_cast<std::uint8_t>(codes[i] | ((byte_at(block + 16, i % 32) >> (i / 32)) & 1) << 4);
}

// Q6_K: a scale byte of every row for each of sixteen parts, then halves d.
constexpr int kByteScales = 16;
void put_byte_scales(const std::byte* block, int row, std::byte* group) {
  for (int k = 0; k < kByteScales; ++k) group[k * kGroupRows + row] = block[192 + k];
  put_half(block + 208, row, group + kByteScales * kGroupRows);
}
Affine byte_affine(const std::byte* group, int row, int k) {
  const auto sc = load<std::int8_t>(group + k * kGroupRows + row);
  return {half_at(group + kByteScales * kGroupRows, row) * static_cast<float>(sc), 0};
}
void q6_k_codes(const std::byte* block, std::uint8_t* codes) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, j = i % 128 / 32, l = i % 32;
    const int low = byte_at(block, half * 64 + l + 32 * (j & 1)) >> (4 * (j / 2)),
              high = byte_at(block + 128, half * 32 + l) >> (2 * j);
    codes[i] = static_cast<std::uint8_t>((low & 15) | (high & 3) << 4);
  }
}

// IQ4_XS: halves d, the high bits of the scales, and a word of their low ones.
void put_uneven_scales(const std::byte* block, int row, std::byte* group) {
  put_scale_and_minimum(block, row, group);
  put_word(block + 4, row, group + 2 * kHalves);
}
Affine uneven_affine(const std::byte* group, int row, int k) {
  const auto low = load<std::uint32_t>(group + 2 * kHalves + 4 * row);
  const int high = load<std::uint16_t>(group + kHalves + 2 * row);
  return {half_at(group, row) * static_cast<float>(uneven_part_scale(low, high, k / 2)), 0};
}
void iq4_xs_codes(const std::byte* block, std::uint8_t* codes) {
  for (int j = 0; j < 8; ++j) split_nibbles(block + 8 + 16 * j, 32, codes + 32 * j);
}

// MXFP4: an exponent of every row.
void put_exponent(const std::byte* block, int row, std::byte* group) { group[row] = block[0]; }
Affine exponent_affine(const std::byte* group, int row, int) { return {half_power(byte_at(group, row)), 0}; }
void mxfp4_codes(const std::byte* block, std::uint8_t* codes) { split_nibbles(block + 1, 32, codes); }

constexpr MatrixLayout kLayouts[] = {
    {BlockType::kQ8_0, 8, 0, 128, nullptr, 2, q8_0_codes, put_scale, one_scale},
    {BlockType::kQ4_0, 4, 0, 8, nullptr, 2, q4_0_codes, put_scale, one_scale},
    {BlockType::kQ4_1, 4, 0, 0, nullptr, 4, q4_1_codes, put_scale_and_minimum, scale_and_minimum},
    {BlockType::kQ5_0, 4, 1, 16, nullptr, 2, q5_0_codes, put_scale, one_scale},
    {BlockType::kQ5_1, 4, 1, 0, nullptr, 4, q5_1_codes, put_scale_and_minimum, scale_and_minimum},
    {BlockType::kQ4_K, 4, 0, 0, nullptr, 16, q4_k_codes, put_part_scales, part_affine},
    {BlockType::kQ5_K, 4, 1, 0, nullptr, 16, q5_k_codes, put_part_scales, part_affine},
    {BlockType::kQ6_K, 4, 2, 32, nullptr, 18, q6_k_codes, put_byte_scales, byte_affine},
    {BlockType::kIQ4_NL, 4, 0, 0, &kUnevenValues, 2, q4_0_codes, put_scale, one_scale},
    {BlockType::kIQ4_XS, 4, 0, 0, &kUnevenValues, 8, iq4_xs_codes, put_uneven_scales, uneven_affine},
    {BlockType::kMXFP4, 4, 0, 0, &kTwiceE2M1, 1, mxfp4_codes, put_exponent, exponent_affine},
};

// Where a code is: its low bits in byte `low` of the 32 columns, its further bits in byte `high`.
struct CodePlace {
  int low, low_shift, high, high_shift;
};
CodePlace place_of(const MatrixLayout& layout, int column, int row) {
  const int vector = column / kWord, byte = row * kWord + column % kWord;
  CodePlace place{vector * kLine + byte, 0, byte, 0};
  if (layout.low_bits == 4) place.low = vector % 4 * kLine + byte, place.low_shift = vector / 4 * 4;
  if (layout.high_bits == 1) place.high_shift = vector;
  if (layout.high_bits == 2) place.high = vector / 4 * kLine + byte, place.high_shift = vector % 4 * 2;
  return place;
}

// Sections of a group.
struct Sections {
  Sections(const MatrixLayout& layout, std::int64_t columns)
      : high(layout.low_bytes(columns)), scales(high + layout.high_bytes(columns)) {}
  std::int64_t high, scales;
};

void pack_block(const MatrixLayout& layout, const std::byte* block, int row, std::byte* low, std::byte* high,
                std::byte* scales) {
  std::uint8_t codes[kWidestBlock];
  layout.read_codes(block, codes);
  layout.copy_scales(block, row, scales);
  const int units = layout.format().numbers / kUnitColumns;
  for (int u = 0; u < units; ++u) {
    for (int c = 0; c < kUnitColumns; ++c) {
      const int code = codes[u * kUnitColumns + c];
      const CodePlace at = place_of(layout, c, row);
      if (layout.low_bits == 8)
        low[at.low] = static_cast<std::byte>(code);
      else
        low[at.low] |= static_cast<std::byte>((code & 15) << at.low_shift);
      if (layout.high_bits > 0) high[at.high] |= static_cast<std::byte>(code >> 4 << at.high_shift);
    }
    low += layout.low_bytes(kUnitColumns);
    high += layout.high_bytes(kUnitColumns);
  }
}

}  // namespace

std::int64_t MatrixLayout::group_bytes(std::int64_t columns) const {
  return round_up(kGroupRows * format().row_bytes(columns), kLine);
}

const MatrixLayout* matrix_layout(BlockType type) {
  const auto* found = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                   [&](const MatrixLayout& layout) { return layout.type == type; });
  return found == std::end(kLayouts) ? nullptr : found;
}

const MatrixLayout& MatrixPart::layout() const {
  const MatrixLayout* found = matrix_layout(type);
  require<InternalError>(found != nullptr, "no products with {}", format_of(type).name);
  return *found;
}

std::int64_t MatrixShape::rows() const {
  std::int64_t out = 0;
  for (int p = 0; p < count; ++p) out += parts[static_cast<std::size_t>(p)].rows;
  return out;
}

std::int64_t MatrixShape::bytes() const {
  std::int64_t out = 0;
  for (int p = 0; p < count; ++p) out += parts[static_cast<std::size_t>(p)].bytes(columns);
  return out;
}

void pack_groups(const MatrixPart& part, std::int64_t columns,
                 const std::function<const std::byte*(std::int64_t row)>& row, std::int64_t first,
                 std::int64_t end, std::byte* memory) {
  const MatrixLayout& layout = part.layout();
  const BlockFormat& format = layout.format();
  const std::int64_t bytes = layout.group_bytes(columns), blocks = columns / format.numbers;
  const Sections at(layout, columns);
  for (std::int64_t g = first; g < end; ++g) {
    std::byte* group = memory + g * bytes;
    std::memset(group, 0, static_cast<std::size_t>(bytes));
    for (int r = 0; r < kGroupRows && g * kGroupRows + r < part.rows; ++r) {
      const std::byte* from = row(g * kGroupRows + r);
      if (from == nullptr) continue;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::byte* scales = group + at.scales + b * layout.scale_bytes * kGroupRows;
        pack_block(layout, from + b * format.bytes, r, group + layout.low_bytes(b * format.numbers),
                   group + at.high + layout.high_bytes(b * format.numbers), scales);
        const auto [scale, minimum] = layout.affine(scales, r, 0);
        require<DataError>(std::isfinite(scale) && std::isfinite(minimum),
                           "row {}, block {}: a scale is infinite or not a number", g * kGroupRows + r, b);
      }
    }
  }
}

void unpack_row(const MatrixShape& shape, const std::byte* memory, std::int64_t row, float* out) {
  int p = 0;
  for (; row >= shape.parts[static_cast<std::size_t>(p)].rows; ++p) {
    row -= shape.parts[static_cast<std::size_t>(p)].rows;
    memory += shape.parts[static_cast<std::size_t>(p)].bytes(shape.columns);
  }
  const MatrixLayout& layout = shape.parts[static_cast<std::size_t>(p)].layout();
  const int numbers = layout.format().numbers, r = static_cast<int>(row % kGroupRows);
  const Sections at(layout, shape.columns);
  const std::byte* group = memory + row / kGroupRows * layout.group_bytes(shape.columns);
  for (std::int64_t column = 0; column < shape.columns; column += kUnitColumns) {
    const std::byte *low = group + layout.low_bytes(column),
                    *high = group + at.high + layout.high_bytes(column),
                    *scales = group + at.scales + column / numbers * layout.scale_bytes * kGroupRows;
    MatrixLayout::Affine affine{};
    for (int c = 0; c < kUnitColumns; ++c) {
      if (c % 16 == 0) affine = layout.affine(scales, r, static_cast<int>((column + c) % numbers) / 16);
      const CodePlace place = place_of(layout, c, r);
      int code = byte_at(low, place.low) >> place.low_shift;
      if (layout.low_bits == 4) code &= 15;
      if (layout.high_bits > 0)
        code |= ((byte_at(high, place.high) >> place.high_shift) & ((1 << layout.high_bits) - 1)) << 4;
      const int value = layout.values ? (*layout.values)[static_cast<std::size_t>(code)] : code - layout.zero;
      out[column + c] = affine.scale * static_cast<float>(value) + affine.minimum;
    }
  }
}

}  // namespace stoa::quant
