// Products with matrices in the numbers of quantised files (ops/quantised_linear.h).
//
// Codes are multiplied as whole numbers, so that the sum of a unit of 32 columns is exact whatever multiplies
// it. What is rounded is added in one order that the number of columns decides: the units of a segment one
// after the other, then the segments. So both kernels give a row of y the same bits.
#pragma once

#include "ops/cuda/kernels/element.h"
#include "ops/quantised_codes.h"
#include "ops/quantised_formats.h"

namespace stoa::ops::cuda {

constexpr int kScaledUnits = kScaledColumns / 32, kSegmentUnits = 8;  // units that have one scale of tokens
constexpr int kMostSegments = 8;
constexpr std::int64_t kPassTokens = 32;  // for which the kernel of few tokens reads codes of weights once
constexpr std::int64_t kTileTokens = 128, kTileRows = 128;  // of a tile of the kernel of many

// Tokens as codes. Sums and scales are there for padded_tokens(); those of tokens that do not exist are 0.
struct TokenCodes {
  std::int64_t tokens = 0, padded = 0, units = 0;
  bool many = false;  // the kernel of many tokens takes them
  // Few: [tokens, units, 4, 4] words of codes: those of columns 4 v and 16 + 4 v, coarse, then fine.
  // Many: [tokens, columns] whole codes in fp16, which holds them all.
  void* codes = nullptr;
  // Of eight tokens at a time.
  float* scales = nullptr;            // [padded / 8, ceil(units / 2), 8]
  std::int32_t* sums = nullptr;       // [padded / 8, units, 8]
  std::int32_t* half_sums = nullptr;  // [padded / 8, units, 2, 8]
};
std::int64_t padded_tokens(std::int64_t tokens);
// Whether the kernel of many tokens takes less time.
bool has_many(std::int64_t tokens, std::int64_t rows);

struct EncodeArgs {
  const void* x = nullptr;
  Element type = Element::kF32;
  std::int64_t stride = 0;  // elements between rows
  TokenCodes to;
};
void launch_encode_tokens(const EncodeArgs& args, void* stream);

// Rows of one format; w and y of their first one.
struct WeightPart {
  const std::uint8_t* groups = nullptr;
  std::int64_t rows = 0;
  std::int64_t row = 0;  // of y and bias
};
struct QuantisedProductArgs {
  static constexpr int kMostParts = 8;
  WeightFormat format = WeightFormat::kQ8_0;
  std::int64_t group_bytes = 0;
  int parts = 0;
  WeightPart part[kMostParts];
  TokenCodes x;
  std::int64_t segment = 0;  // kSegmentUnits of a segment
  const float* bias = nullptr;
  void* y = nullptr;
  std::int64_t y_stride = 0;
  Element y_type = Element::kF32;
};
void launch_quantised_product(const QuantisedProductArgs& args, void* stream);
// By kernels/quantised_tiles.cu; launch_quantised_product() calls it.
void launch_quantised_tiles(const QuantisedProductArgs& args, void* stream);

// y[i] = row tokens[i] of the matrix, where it is one of those that the arguments describe: [first, first +
// rows). Tokens that are no row of the matrix give zeros.
struct QuantisedRowsArgs {
  const std::int32_t* tokens = nullptr;
  std::int64_t count = 0;
  WeightFormat format = WeightFormat::kQ8_0;
  const std::uint8_t* groups = nullptr;
  std::int64_t group_bytes = 0, units = 0;  // units of 32 columns
  std::int64_t first = 0, rows = 0, all_rows = 0;
  void* y = nullptr;
  std::int64_t y_stride = 0;
  Element y_type = Element::kF32;
};
void launch_quantised_rows(const QuantisedRowsArgs& args, void* stream);

}  // namespace stoa::ops::cuda
