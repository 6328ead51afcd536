// Packed matrices: what they stand for, whole and in parts.
#include "quant/packed_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/half.h"
#include "base/philox.h"
#include "quant/nf4.h"

namespace stoa::quant {
namespace {

std::vector<float> random_numbers(std::int64_t count) {
  std::vector<float> out;
  const PhiloxKey key = philox_key(3, RandomPurpose::kTest, "packed");
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(0.1 * philox_normal(key, static_cast<std::uint64_t>(i))));
  return out;
}

std::vector<float> values_of(PackedKind kind, std::vector<float> numbers, std::int64_t columns) {
  pass_through(kind, numbers, columns);
  return numbers;
}

TEST(PackedMatrix, NumbersAreNearTheirs) {
  const std::vector<float> numbers = random_numbers(40 * 128);
  for (const auto& [kind, most] : {std::pair(PackedKind::kInt8, 0.01), std::pair(PackedKind::kNf4, 0.1)}) {
    const std::vector<float> values = values_of(kind, numbers, 128);
    double error = 0, all = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      error += std::pow(static_cast<double>(values[i]) - static_cast<double>(numbers[i]), 2);
      all += std::pow(static_cast<double>(numbers[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / all), most);
    EXPECT_GT(error, 0);
    // What was rounded once is not rounded again, but for the magnitudes of blocks.
    const std::vector<float> again = values_of(kind, values, 128);
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(again[i], values[i], 0.02);
  }
}

// 0.56 bytes per number at most, in matrices that models have.
TEST(PackedMatrix, TakesHalfAByte) {
  for (const auto& [rows, columns] : {std::pair(576, 576), std::pair(1536, 576), std::pair(4096, 4096)}) {
    const auto bytes = static_cast<double>(whole_shape(PackedKind::kNf4, rows, columns).bytes());
    EXPECT_LT(bytes / (static_cast<double>(rows) * columns), 0.53);
  }
}

// Parts of two matrices, one below the other, hold the numbers that the whole ones have.
TEST(PackedMatrix, PartsHaveTheNumbersOfTheWhole) {
  constexpr std::int64_t kColumns = 256, kFirst = 70, kSecond = 30;
  const std::vector<float> first = random_numbers(kFirst * kColumns);
  std::vector<float> second = random_numbers(kSecond * kColumns);
  for (float& x : second) x *= 3;
  for (const PackedKind kind : {PackedKind::kInt8, PackedKind::kNf4}) {
    const std::vector<float> whole[] = {values_of(kind, first, kColumns), values_of(kind, second, kColumns)};
    const PackedFormat& format = packed_format(kind);
    const std::int64_t groups = format.groups(kFirst, kColumns);
    const PackedShape shape{kind, 40 + 20, 128, groups + format.groups(kSecond, kColumns)};
    std::vector<std::byte> memory(shape.bytes());
    format.pack(first, kColumns)
        ->copy({.row = 25, .rows = 40, .column = 64, .columns = 128}, shape, memory.data());
    format.pack(second, kColumns)
        ->copy(
            {.row = 10, .rows = 20, .column = 64, .columns = 128, .memory_row = 40, .memory_group = groups},
            shape, memory.data());
    // Pieces that begin and end within blocks.
    for (const auto& [column, columns] :
         {std::pair(0, 128), std::pair(3, 70), std::pair(63, 2), std::pair(127, 1)}) {
      std::vector<float> out(static_cast<std::size_t>(60 * columns));
      unpack(shape, memory.data(), {0, 60, column, columns}, out.data(), columns);
      for (std::int64_t r = 0; r < 60; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::vector<float>& from = whole[r < 40 ? 0 : 1];
          const std::int64_t row = r < 40 ? 25 + r : 10 + r - 40;
          ASSERT_EQ(out[static_cast<std::size_t>(r * columns + c)],
                    from[static_cast<std::size_t>(row * kColumns + 64 + column + c)])
              << r << " " << c;
        }
    }
    std::vector<bf16> rounded(128);
    unpack(shape, memory.data(), {7, 1, 0, 128}, rounded.data(), 128);
    for (std::size_t c = 0; c < 128; ++c)
      EXPECT_EQ(rounded[c].bits, bf16(whole[0][static_cast<std::size_t>(32 * kColumns + 64) + c]).bits);
  }
}

TEST(Nf4, ValuesOfMagnitudes) {
  const auto& values = dynamic_values();
  EXPECT_EQ(values.front(), -0.99296875f);
  EXPECT_EQ(values.back(), 1);
  EXPECT_EQ(values[127], 0);
  EXPECT_EQ(nearest_dynamic(1), 255);
  EXPECT_EQ(nearest_dynamic(0), 127);
  EXPECT_EQ(nearest_nf4(-1), 0);
  EXPECT_EQ(nearest_nf4(0.01f), 7);
}

}  // namespace
}  // namespace stoa::quant
