#include "quant/matrix_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"

namespace stoa::quant {
namespace {

constexpr BlockType kLaidOut[] = {BlockType::kQ8_0,   BlockType::kQ4_0,   BlockType::kQ4_1, BlockType::kQ5_0,
                                  BlockType::kQ5_1,   BlockType::kQ4_K,   BlockType::kQ5_K, BlockType::kQ6_K,
                                  BlockType::kIQ4_NL, BlockType::kIQ4_XS, BlockType::kMXFP4};

struct Rows {
  std::vector<std::byte> blocks;
  std::vector<float> numbers;
  std::int64_t row_bytes;
  const std::byte* row(std::int64_t r) const { return blocks.data() + r * row_bytes; }
};

Rows random_rows(BlockType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  const BlockFormat& format = format_of(type);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.01F, 0.3F);
  Rows out{{}, {}, format.row_bytes(columns)};
  out.numbers.resize(static_cast<std::size_t>(rows * columns));
  for (float& x : out.numbers) x = normal(random);
  out.blocks.resize(static_cast<std::size_t>(rows * out.row_bytes));
  encode_numbers(format, out.numbers.data(), rows * columns, nullptr, out.blocks.data());
  decode_numbers(format, out.blocks.data(), 0, rows * columns, out.numbers.data());
  return out;
}

void expect_numbers_of_the_file(std::span<const BlockType> types) {
  constexpr std::int64_t kColumns = 768;
  MatrixShape shape{kColumns, 0, {}};
  std::vector<Rows> parts;
  std::int64_t rows = 5, file_bytes = 0;
  for (const BlockType type : types) {
    shape.parts[static_cast<std::size_t>(shape.count++)] = {type, rows};
    parts.push_back(random_rows(type, rows, kColumns, static_cast<std::uint32_t>(rows)));
    file_bytes += (rows + 15) / 16 * 16 * parts.back().row_bytes;
    rows += 11;
  }
  EXPECT_LE(shape.bytes() - file_bytes, 64 * 40);
  std::vector<std::byte> memory(static_cast<std::size_t>(shape.bytes()));
  std::byte* at = memory.data();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const MatrixPart& part = shape.parts[p];
    for (std::int64_t g = 0; g < part.groups(); ++g)  // one by one, as workers do
      pack_groups(
          part, kColumns, [&](std::int64_t r) { return parts[p].row(r); }, g, g + 1, at);
    at += part.bytes(kColumns);
  }
  std::int64_t row = 0;
  std::vector<float> found(kColumns);
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::int64_t r = 0; r < shape.parts[p].rows; ++r, ++row) {
      unpack_row(shape, memory.data(), row, found.data());
      for (std::int64_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(found[static_cast<std::size_t>(c)],
                  parts[p].numbers[static_cast<std::size_t>(r * kColumns + c)])
            << format_of(shape.parts[p].type).name << " row " << r << " column " << c;
    }
  EXPECT_EQ(row, shape.rows());
}

TEST(MatrixLayout, HoldsTheNumbersOfTheFileInItsBytes) {
  const std::span all(kLaidOut);
  expect_numbers_of_the_file(all.first(MatrixShape::kMostParts));
  expect_numbers_of_the_file(all.last(MatrixShape::kMostParts));
}

TEST(MatrixLayout, RowsThatAreMissingAreZeros) {
  const Rows rows = random_rows(BlockType::kQ4_1, 1, 64, 1);
  const MatrixShape shape{64, 1, {MatrixPart{BlockType::kQ4_1, 3}}};
  std::vector<std::byte> memory(static_cast<std::size_t>(shape.bytes()), std::byte{7});
  pack_groups(
      shape.parts[0], 64, [&](std::int64_t r) { return r == 0 ? rows.row(0) : nullptr; }, 0, 1,
      memory.data());
  std::vector<float> found(64, 1.0F);
  unpack_row(shape, memory.data(), 2, found.data());
  EXPECT_EQ(found, std::vector<float>(64));
}

TEST(MatrixLayout, RefusesScalesThatAreNoNumbers) {
  for (const BlockType type : kLaidOut) {
    if (type == BlockType::kMXFP4) continue;  // every exponent is one of a number
    Rows rows = random_rows(type, 1, 256, 2);
    const std::uint16_t infinity = 0x7c00;
    std::memcpy(rows.blocks.data() + (type == BlockType::kQ6_K ? 208 : 0), &infinity, 2);
    const MatrixPart part{type, 1};
    std::vector<std::byte> memory(static_cast<std::size_t>(part.bytes(256)));
    EXPECT_THROW(pack_groups(
                     part, 256, [&](std::int64_t) { return rows.row(0); }, 0, 1, memory.data()),
                 DataError);
  }
}

TEST(MatrixLayout, OtherTypesHaveNone) { EXPECT_EQ(matrix_layout(BlockType::kQ2_K), nullptr); }

}  // namespace
}  // namespace stoa::quant
