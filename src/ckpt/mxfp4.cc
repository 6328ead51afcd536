#include "ckpt/mxfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace stoa::ckpt {
namespace {

// By the four bits: sign, two of exponent, one of mantissa.
constexpr std::array<float, 16> kValues{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

float scale_of(std::byte code) {
  const int exponent = std::to_integer<int>(code);
  return exponent == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, exponent - 127);
}

}  // namespace

void decode_mxfp4_transposed(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                             std::int64_t count, std::int64_t rows, std::int64_t columns, DType type,
                             std::byte* out) {
  const std::int64_t per_row = columns / kMxfp4Block;
  require<ShapeError>(columns % kMxfp4Block == 0 &&
                          static_cast<std::int64_t>(scales.size()) == count * rows * per_row &&
                          blocks.size() == scales.size() * static_cast<std::size_t>(kMxfp4Bytes),
                      "MXFP4: {} bytes of blocks and {} scales are not {} matrices of [{}, {}]",
                      blocks.size(), scales.size(), count, rows, columns);
  dispatch_float(type, [&]<class T>() {
    constexpr std::int64_t kTile = 64;  // rows that are neighbours in `out`
    for (std::int64_t m = 0; m < count; ++m)
      for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
        for (std::int64_t b = 0; b < per_row; ++b)
          for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
            const auto block = static_cast<std::size_t>((m * rows + r) * per_row + b);
            const float scale = scale_of(scales[block]);
            for (std::int64_t i = 0; i < kMxfp4Block; ++i) {
              const int pair = std::to_integer<int>(
                  blocks[block * static_cast<std::size_t>(kMxfp4Bytes) + static_cast<std::size_t>(i / 2)]);
              const float value =
                  kValues[static_cast<std::size_t>(i % 2 == 0 ? pair & 15 : pair >> 4)] * scale;
              const auto at = static_cast<std::size_t>((m * columns + b * kMxfp4Block + i) * rows + r);
              const T stored = static_cast<T>(value);
              std::memcpy(out + at * sizeof(T), &stored, sizeof(T));
            }
          }
  });
}

}  // namespace stoa::ckpt
