// How a part of a row of a packed matrix (packed_matrix.h) becomes numbers. Callers with kernels for the
// processor pass theirs to unpack_rows(); the values are the same to the bit. Plain declarations alone:
// kernels are compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace stoa::quant {

// Number i is codes[i] * scale.
struct Int8Row {
  const std::int8_t* codes;
  float scale;
  std::int64_t count;
};

// Number i is that of column `begin` + i of the row: the value of its code times the magnitude of its block,
// which is dynamic[code of the magnitude] * the scale + the mean of the block's group.
struct Nf4Row {
  const std::uint8_t* pairs;       // codes of the row, two in a byte, the first in the high half
  const std::uint8_t* magnitudes;  // codes of the magnitudes of the row's blocks
  const float* groups;             // scale and mean of every group
  std::int64_t first;              // the row's first block among those of all groups
  const float* values;             // of the 16 codes
  const float* dynamic;            // of the 256 codes of magnitudes
  std::int64_t begin, count;
};

enum class RowType : std::uint8_t { kF32, kBF16, kF16 };

// By RowType. Numbers are computed in fp32 and rounded once.
struct RowKernels {
  void (*int8[3])(const Int8Row& row, void* out);
  void (*nf4[3])(const Nf4Row& row, void* out);
};

}  // namespace stoa::quant
