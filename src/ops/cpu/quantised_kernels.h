// The inner loops of products with matrices in the numbers of quantised files (quant/matrix_layout.h), one
// table per instruction set. quantised_linear.cc drives them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"
#include "ops/quantised_codes.h"
#include "ops/quantised_formats.h"

namespace stoa::ops::cpu {

inline constexpr std::int64_t kScaledUnits = kScaledColumns / 32;

// Tokens in codes (ops/quantised_linear.h). Tiles of `height` tokens, in each of them units of 32 columns, in
// each of these the tokens; tokens that do not exist are zero.
struct TokenCodes {
  std::int64_t height, units;
  std::int8_t* codes;       // coarse and fine: [tiles, units, height, 2, 32]
  float* scales;            // of kScaledColumns: [tiles, blocks(), height]
  std::int32_t* half_sums;  // of the codes of 16 columns: [tiles, units, 2, height]
  float* sums;              // of those of all 32: [tiles, units, height]

  std::int64_t blocks() const { return (units + kScaledUnits - 1) / kScaledUnits; }
};

struct EncodeJob {
  const void* x;
  std::int64_t stride;  // elements between rows
  Element element;
  std::int64_t tokens;
  std::int64_t first, end;  // tiles
  TokenCodes to;
};

// out[t, n] = x[t] w[n] + bias[n] for the rows n of groups [first, end) of a part.
struct WeightsJob {
  WeightFormat format;
  const std::byte* groups;   // of the part
  std::int64_t group_bytes;  // from one to the next
  std::int64_t first, end;   // groups
  const std::byte* fetched;  // weights are fetched ahead up to here
  std::int64_t rows;         // of the part
  TokenCodes x;
  std::int64_t tokens;
  const float* bias;  // of the part's rows, or null
  void* out;          // token 0, row 0 of the part
  std::int64_t out_stride;
  Element out_element;
  std::byte* unpacked;  // room of products_of_tiles() for two groups, or null
};

struct QuantisedKernels {
  void (*encode)(const EncodeJob&);
  // Any number of tokens.
  void (*products)(const WeightsJob&);
};

STOA_FOR_EACH_ISA(const QuantisedKernels& quantised_kernels())

// The same products on tiles, with formats that have one scale for 32 columns: equal to the bit to those of
// the vectors of the same instruction set. Tiles of tokens are kTileTokens high.
struct QuantisedTiles {
  void (*products)(const WeightsJob&);
};
inline constexpr std::int64_t kTileTokens = 16, kUnpackedUnit = 16 * 64 + 2 * 16 * 4;  // bytes, at most

#if defined(__x86_64__)
namespace avx512bf16 {
const QuantisedTiles& quantised_tiles();
}
#endif

}  // namespace stoa::ops::cpu
