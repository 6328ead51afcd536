// Matrices in 8 or 4 bits (quant/packed_matrix.h) as numbers.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// The numbers of all codes, and of all codes of magnitudes (quant/nf4.h).
struct Nf4Tables {
  float values[16], dynamic[256];
};

struct PackedMatrixArgs {
  std::int64_t rows = 0, columns = 0;
  const void* codes = nullptr;
  const float* scales = nullptr;  // int8: of every row
  const std::uint8_t* magnitudes =
      nullptr;                          // nf4: codes of blocks of 64 numbers; columns are a multiple of 64
  const std::int32_t* first = nullptr;  // nf4: of every row, its first block among those of all groups
  const float* groups = nullptr;        // nf4: scale and mean of every group of 256 blocks
  Element type = Element::kF32;
  void* out = nullptr;  // [rows, columns], aligned to 16 bytes
};

// Numbers are computed in fp32 and rounded once: the CPU's to the bit.
void launch_unpack_int8(const PackedMatrixArgs& args, void* stream);
void launch_unpack_nf4(const PackedMatrixArgs& args, const Nf4Tables& tables, void* stream);

}  // namespace stoa::ops::cuda
