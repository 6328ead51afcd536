#include "ops/cpu/tile_semantics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stoa::ops::cpu {
namespace {

TileConfiguration shapes(std::vector<std::pair<int, int>> rows_and_words) {
  TileConfiguration c;
  c.palette = 1;
  for (std::size_t t = 0; t < rows_and_words.size(); ++t) {
    c.rows[t] = static_cast<std::uint8_t>(rows_and_words[t].first);
    c.row_bytes[t] = static_cast<std::uint16_t>(rows_and_words[t].second * 4);
  }
  return c;
}

std::uint32_t bits(float x) {
  std::uint32_t b;
  std::memcpy(&b, &x, 4);
  return b;
}
std::uint32_t pair(float first, float second) { return bits(first) >> 16 | (bits(second) & 0xffff0000u); }

// One row, one column: the sum of the products of `a` and `b`, added to `c`.
float dot(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, float c) {
  const int k = static_cast<int>(a.size());
  TileState tiles;
  EXPECT_TRUE(tiles.configure(shapes({{1, 1}, {1, k}, {k, 1}})));
  EXPECT_TRUE(tiles.load(0, &c, 4));
  EXPECT_TRUE(tiles.load(1, a.data(), 64));
  EXPECT_TRUE(tiles.load(2, b.data(), 4));
  EXPECT_TRUE(tiles.multiply_add(0, 1, 2));
  float out = 0;
  EXPECT_TRUE(tiles.store(0, &out, 4));
  return out;
}

TEST(TileSemantics, LoadsRowsAtAStrideAndZerosTheRest) {
  TileState tiles;
  ASSERT_TRUE(tiles.configure(shapes({{3, 2}})));
  const std::uint32_t memory[9] = {1, 2, 9, 3, 4, 9, 5, 6, 9};
  ASSERT_TRUE(tiles.load(0, memory, 12));
  std::uint32_t back[6] = {};
  ASSERT_TRUE(tiles.store(0, back, 8));
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(back[i], i + 1);
  ASSERT_TRUE(tiles.load(0, memory + 6, -12));  // upwards
  ASSERT_TRUE(tiles.store(0, back, 8));
  EXPECT_EQ(back[0], 5u);
  EXPECT_EQ(back[5], 2u);
  ASSERT_TRUE(tiles.zero(0));
  ASSERT_TRUE(tiles.store(0, back, 8));
  EXPECT_EQ(back[0], 0u);
}

TEST(TileSemantics, MatrixProduct) {
  TileState tiles;  // [2, 4] x [4, 3]
  ASSERT_TRUE(tiles.configure(shapes({{2, 3}, {2, 2}, {2, 3}})));
  std::vector<std::uint32_t> a, b;
  const auto x = [](int i, int k) { return static_cast<float>(i * 4 + k + 1); };
  const auto y = [](int k, int j) { return static_cast<float>(k * 3 - j); };
  for (int i = 0; i < 2; ++i)
    for (int u = 0; u < 2; ++u) a.push_back(pair(x(i, 2 * u), x(i, 2 * u + 1)));
  for (int u = 0; u < 2; ++u)
    for (int j = 0; j < 3; ++j) b.push_back(pair(y(2 * u, j), y(2 * u + 1, j)));
  std::vector<float> c(6, 0.5f);
  ASSERT_TRUE(tiles.load(0, c.data(), 12));
  ASSERT_TRUE(tiles.load(1, a.data(), 8));
  ASSERT_TRUE(tiles.load(2, b.data(), 12));
  ASSERT_TRUE(tiles.multiply_add(0, 1, 2));
  ASSERT_TRUE(tiles.store(0, c.data(), 12));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      float sum = 0.5f;
      for (int k = 0; k < 4; ++k) sum += x(i, k) * y(k, j);
      EXPECT_EQ(c[static_cast<std::size_t>(i * 3 + j)], sum);
    }
}

TEST(TileSemantics, ProductOfBytes) {
  TileState tiles;  // [2, 8] x [8, 3]
  ASSERT_TRUE(tiles.configure(shapes({{2, 3}, {2, 2}, {2, 3}})));
  const auto x = [](int i, int k) { return 31 * k - 100 - 27 * i; };
  const auto y = [](int k, int j) { return 127 - 36 * k + 5 * j - (k == 0 ? 13 : 0); };
  std::int8_t a[2][8], b[2][3][4];  // a word of B: four neighbours of a column
  for (int k = 0; k < 8; ++k) {
    for (int i = 0; i < 2; ++i) a[i][k] = static_cast<std::int8_t>(x(i, k));
    for (int j = 0; j < 3; ++j) b[k / 4][j][k % 4] = static_cast<std::int8_t>(y(k, j));
  }
  std::int32_t c[2][3] = {{7, 7, 7}, {7, 7, 7}};
  ASSERT_TRUE(tiles.load(0, c, 12));
  ASSERT_TRUE(tiles.load(1, a, 8));
  ASSERT_TRUE(tiles.load(2, b, 12));
  ASSERT_TRUE(tiles.multiply_add_bytes(0, 1, 2));
  ASSERT_TRUE(tiles.store(0, c, 12));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      int sum = 7;
      for (int k = 0; k < 8; ++k)
        sum += static_cast<std::int8_t>(x(i, k)) * static_cast<std::int8_t>(y(k, j));
      EXPECT_EQ(c[i][j], sum);
    }
  EXPECT_FALSE(tiles.multiply_add_bytes(0, 1, 1)) << "tiles must differ";

  ASSERT_TRUE(tiles.zero(0));
  ASSERT_TRUE(tiles.multiply_add_bytes(0, 1, 2, true));
  ASSERT_TRUE(tiles.store(0, c, 12));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      int sum = 0;
      for (int k = 0; k < 8; ++k)
        sum += static_cast<std::int8_t>(x(i, k)) * static_cast<std::uint8_t>(y(k, j));
      EXPECT_EQ(c[i][j], sum);
    }
}

// First halves and second halves are summed apart, and the old value comes last.
TEST(TileSemantics, OrderOfSums) {
  const float big = 0x1p24f;
  // Firsts: 2^24 + 1 = 2^24 (even), seconds: 1 - 2^24; in the order of memory 1 would be lost once more.
  EXPECT_EQ(dot({pair(big, 1), pair(1, -big)}, {pair(1, 1), pair(1, 1)}, 0), 1 - big + big);
  EXPECT_EQ(dot({pair(1, -1), pair(big, -big)}, {pair(1, 1), pair(1, 1)}, 3), 3 + 0 + (big - (big - 1)) - 1);
  // The old value meets the finished sum: 1 + 1 first.
  EXPECT_EQ(dot({pair(1, 1)}, {pair(1, 1)}, big), big + 2);
  // Each step is fused: the product has sixteen significant bits and is not rounded before the sum is.
  EXPECT_EQ(dot({pair(1, 0), pair(1.0078125f, 0)}, {pair(1, 0), pair(1.0078125f, 0)}, 0),
            static_cast<float>(1 + 1.0078125 * 1.0078125));
}

TEST(TileSemantics, SubnormalsAreZero) {
  const float tiny = 0x1p-130f, least = std::numeric_limits<float>::min();
  EXPECT_EQ(dot({pair(tiny, 0)}, {pair(0x1p20f, 0)}, 0), 0.0f);       // input of A
  EXPECT_EQ(dot({pair(0x1p20f, 0)}, {pair(tiny, 0)}, 0), 0.0f);       // input of B
  EXPECT_EQ(dot({pair(0x1p-70f, 0)}, {pair(0x1p-60f, 0)}, 0), 0.0f);  // result
  EXPECT_EQ(dot({pair(0, 0)}, {pair(0, 0)}, tiny), 0.0f);             // old value
  EXPECT_EQ(dot({pair(least, 0)}, {pair(1, 0)}, 0), least);
}

TEST(TileSemantics, InfinitiesAndNans) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(dot({pair(infinity, 1)}, {pair(1, 1)}, 0), infinity);
  EXPECT_TRUE(std::isnan(dot({pair(infinity, 1)}, {pair(0, 1)}, 0)));
  EXPECT_TRUE(std::isnan(dot({pair(infinity, -infinity)}, {pair(1, 1)}, 0)));
}

TEST(TileSemantics, RefusesWhatTheProcessorRefuses) {
  TileState tiles;
  EXPECT_FALSE(tiles.zero(0)) << "no configuration";
  TileConfiguration c = shapes({{16, 16}, {16, 16}, {16, 16}});
  c.palette = 2;
  EXPECT_FALSE(tiles.configure(c));
  c = shapes({{17, 16}});
  EXPECT_FALSE(tiles.configure(c));
  c = shapes({{16, 17}});
  EXPECT_FALSE(tiles.configure(c));
  c = shapes({{16, 0}});
  EXPECT_FALSE(tiles.configure(c));
  c = shapes({{16, 16}, {16, 16}, {8, 16}});
  ASSERT_TRUE(tiles.configure(c));
  EXPECT_FALSE(tiles.multiply_add(0, 1, 2)) << "B has other rows than A has pairs";
  EXPECT_FALSE(tiles.multiply_add(0, 1, 1)) << "tiles must differ";
  EXPECT_FALSE(tiles.zero(3)) << "not configured";
  tiles.release();
  EXPECT_FALSE(tiles.zero(0));
}

}  // namespace
}  // namespace stoa::ops::cpu
