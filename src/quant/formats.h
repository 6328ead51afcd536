// The formats of each file, for the table in block_format.cc.
#pragma once

#include "quant/block_format.h"

namespace stoa::quant {

extern const BlockFormat kQ4_0Format, kQ4_1Format, kQ5_0Format, kQ5_1Format, kQ8_0Format;  // legacy_blocks.cc
extern const BlockFormat kQ2_KFormat, kQ3_KFormat, kQ6_KFormat, kQ8_KFormat;               // k_blocks.cc
extern const BlockFormat kQ4_KFormat, kQ5_KFormat;      // k_affine_blocks.cc
extern const BlockFormat kIQ4_NLFormat, kIQ4_XSFormat;  // iq4_blocks.cc
extern const BlockFormat kMXFP4Format, kNVFP4Format;    // fp4_blocks.cc
extern const BlockFormat kTQ1_0Format, kTQ2_0Format;    // ternary_blocks.cc

}  // namespace stoa::quant
