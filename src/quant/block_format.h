// Formats of quantised numbers: a block of consecutive numbers of a row shares scales. Layouts are those of
// GGUF files; each family of formats has a file of its own with its layout, its values and its encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stoa::quant {

// Element types of GGUF, under the numbers that files use.
enum class BlockType : std::uint8_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kF64 = 28,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
};

struct BlockFormat {
  BlockType type;
  std::string_view name;  // "Q4_K"
  int numbers;            // of a block
  int bytes;              // of a block
  // One block into fp32, by the operations of GGML in their order, so that the bits are equal.
  void (*decode)(const std::byte* block, float* out);
  // One block of finite numbers. `weights`: how much the error of each counts, or null: the format's own
  // choice. Null: the format is only read.
  void (*encode)(const float* numbers, const float* weights, std::byte* block);

  std::int64_t row_bytes(std::int64_t columns) const { return columns / numbers * bytes; }
};

std::span<const BlockFormat> block_formats();
const BlockFormat& format_of(BlockType type);
// By number or name of GGUF. DataError for one that files may have and that is not read, named; for a number
// or name that is none.
const BlockFormat& block_format(std::uint32_t number);
const BlockFormat& block_format(std::string_view name);  // case does not matter

// Numbers [begin, begin + count) of `row`, which starts with a block; blocks may be cut by the range.
void decode_numbers(const BlockFormat& format, const std::byte* row, std::int64_t begin, std::int64_t count,
                    float* out);
// `count`, a multiple of format.numbers. `weights`: as many, or null.
void encode_numbers(const BlockFormat& format, const float* numbers, std::int64_t count, const float* weights,
                    std::byte* out);

}  // namespace stoa::quant
