#include "ckpt/mxfp4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stoa::ckpt {
namespace {

// Two matrices of [2, 64]: four blocks of 16 bytes a matrix, of codes that go up in the low halves of their
// bytes and down in the high ones.
TEST(Mxfp4, DecodesValuesScalesAndPlaces) {
  constexpr std::int64_t kCount = 2, kRows = 2, kColumns = 64;
  std::vector<std::byte> blocks, scales;
  for (int block = 0; block < kCount * kRows * 2; ++block) {
    scales.push_back(static_cast<std::byte>(127 + block - 3));
    for (int i = 0; i < 16; ++i) blocks.push_back(static_cast<std::byte>(i | ((15 - i) << 4)));
  }
  std::vector<float> out(static_cast<std::size_t>(kCount * kRows * kColumns));
  decode_mxfp4_transposed(blocks, scales, kCount, kRows, kColumns, DType::kF32,
                          reinterpret_cast<std::byte*>(out.data()));
  const float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (std::int64_t m = 0; m < kCount; ++m)
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < kColumns; ++c) {
        const std::int64_t block = (m * kRows + r) * 2 + c / 32, i = c % 32;
        const float value = values[i % 2 == 0 ? i / 2 : 15 - i / 2];
        EXPECT_EQ(out[static_cast<std::size_t>((m * kColumns + c) * kRows + r)],
                  value * std::ldexp(1.0f, static_cast<int>(block) - 3));
      }
}

TEST(Mxfp4, RefusesSizesThatDoNotFit) {
  std::vector<std::byte> blocks(32), scales(2), out(4096);
  EXPECT_THROW(decode_mxfp4_transposed(blocks, scales, 1, 1, 48, DType::kF32, out.data()), ShapeError);
  EXPECT_THROW(decode_mxfp4_transposed(blocks, scales, 1, 3, 32, DType::kF32, out.data()), ShapeError);
}

// The scale 255 is none.
TEST(Mxfp4, AScaleThatIsNotANumberGivesNone) {
  std::vector<std::byte> blocks(16), scales{std::byte{255}};
  std::vector<float> out(32);
  decode_mxfp4_transposed(blocks, scales, 1, 1, 32, DType::kF32, reinterpret_cast<std::byte*>(out.data()));
  for (const float x : out) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace stoa::ckpt
