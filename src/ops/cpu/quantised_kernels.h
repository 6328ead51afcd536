// Products with packed quantised matrices: each weight is read and unpacked once for up to kQuantisedRows rows of
// the input, and every output sums its groups in one order, whatever their number.
//
// 16 outputs make a panel. Along the inputs it consists of supers, each of which has 16 scales (half), 16 minima
// (half, `minimum`), and groups of 32 inputs. A group has, with two_level, 16 scale codes (for each of its halves
// with `halves`) and 16 minimum codes, and then its codes: quads of inputs j = 0 .. 7, of which quad j has in byte
// 4 r + i the number of output r, input 4 j + i. Of 8 bits they are 8 x 64 bytes; else 4 x 64 bytes, quad j in the
// low halves and quad j + 4 in the high ones, and then, for every bit above the fourth, 64 bits for each quad.
//
// A weight is s q - t: s = scale (x its code); t = minimum (x its code), or s x zero where there is no minimum.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_table.h"

namespace stoa::ops::cpu {

inline constexpr int kPanelRows = 16, kGroupInputs = 32, kQuads = 8;
inline constexpr int kQuantisedRows = 64;  // most rows of the input in one call

struct PackedLayout {
  int bits = 8;             // of a code: 4, 5, 6, 8
  int groups = 1;           // of a super
  bool two_level = false;   // scales of groups are codes
  bool halves = false;      // 16 inputs share a scale, not 32; with two_level
  bool minimum = false;
  float zero = 0;           // without minimum

  int code_bytes() const { return bits == 8 ? 512 : 256 + (bits - 4) * 64; }
  int group_bytes() const {
    return code_bytes() + (two_level ? kPanelRows * ((halves ? 2 : 1) + (minimum ? 1 : 0)) : 0);
  }
  int super_bytes() const { return kPanelRows * 2 * (minimum ? 2 : 1) + groups * group_bytes(); }
};

struct QuantisedJob {
  const std::uint8_t* panels = nullptr;  // of consecutive outputs
  std::int64_t panel_count = 0;
  PackedLayout layout;
  std::int64_t inputs = 0;  // a multiple of 32 x groups
  int rows = 0;             // of the input, at most kQuantisedRows
  // Input rows as signed bytes; a scale for every 32 of them; for every 16 their sum times the scale.
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* sums = nullptr;
  float* out = nullptr;  // [rows, out_stride], the first output of the first panel
  std::int64_t out_stride = 0;
};

struct QuantisedKernels {
  void (*product)(const QuantisedJob&);
  // `count` numbers, a multiple of 32, as codes, scales and sums.
  void (*quantise)(const float* numbers, std::int64_t count, std::int8_t* codes, float* scales, float* sums);
};

STOA_FOR_EACH_ISA(const QuantisedKernels& quantised_kernels())

}  // namespace stoa::ops::cpu
