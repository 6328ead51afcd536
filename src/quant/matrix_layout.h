// Matrices [rows, columns] in the numbers of a file's blocks (quant/block_format.h), laid out for products
// with them, in as many bytes. Sixteen rows are a group, whose memory has three sections:
//   low bits of codes    of every 32 columns: words of four codes of neighbours, one of each row, for column
//                        0, 4, … 28 (8 bits); or for columns c and c + 16 in the halves of a byte (4 bits)
//   further bits         of every 32 columns: byte i has the bits that belong to code i of each of these
//                        vectors of words, one vector after the other: 1 bit of eight, or 2 bits of four
//   scales               of every block: what its bytes besides codes are, as `scales` lists them
// A group begins on a line of the cache. Rows that fill the last group have the scale 0.
//
// Numbers are scale (code - zero) + minimum, or scale value(code), where 32 or 16 columns have one scale and
// one minimum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "quant/block_format.h"
#include "quant/code_values.h"

namespace stoa::quant {

inline constexpr int kGroupRows = 16, kUnitColumns = 32;

struct MatrixLayout {
  BlockType type;
  int low_bits, high_bits;   // of a code
  int zero;                  // the code of 0
  const CodeValues* values;  // of the codes, or null: code - zero
  int scale_bytes;           // of a block, of one row

  // The codes of one block.
  void (*read_codes)(const std::byte* block, std::uint8_t* codes);
  // The scales of one block as those of row `row` of a group.
  void (*copy_scales)(const std::byte* block, int row, std::byte* group);
  // Scale and minimum of columns [16 k, 16 (k + 1)) of a block of row `row`.
  struct Affine {
    float scale, minimum;
  };
  Affine (*affine)(const std::byte* group, int row, int k);

  const BlockFormat& format() const { return format_of(type); }
  std::int64_t low_bytes(std::int64_t columns) const { return columns * kGroupRows * low_bits / 8; }
  std::int64_t high_bytes(std::int64_t columns) const { return columns * kGroupRows * high_bits / 8; }
  std::int64_t group_bytes(std::int64_t columns) const;
};

// Null: no products with this type.
const MatrixLayout* matrix_layout(BlockType type);

// Rows of one type, below those of others.
struct MatrixPart {
  BlockType type = BlockType::kF32;
  std::int64_t rows = 0;

  const MatrixLayout& layout() const;
  std::int64_t groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
  std::int64_t bytes(std::int64_t columns) const { return groups() * layout().group_bytes(columns); }
  bool operator==(const MatrixPart&) const = default;
};

struct MatrixShape {
  static constexpr int kMostParts = 8;
  std::int64_t columns = 0;
  int count = 0;  // of parts
  std::array<MatrixPart, kMostParts> parts = {};

  std::int64_t rows() const;
  std::int64_t bytes() const;
  bool operator==(const MatrixShape&) const = default;
};

// Fills groups [first, end) of a part. `row(r)`: the blocks of a row as files have them, or null: zeros.
// DataError, without the tensor's name: a scale is infinite or not a number.
void pack_groups(const MatrixPart& part, std::int64_t columns,
                 const std::function<const std::byte*(std::int64_t row)>& row, std::int64_t first,
                 std::int64_t end, std::byte* memory);
// Row `row` of all parts: the numbers that quant::decode_numbers gives.
void unpack_row(const MatrixShape& shape, const std::byte* memory, std::int64_t row, float* out);

}  // namespace stoa::quant
