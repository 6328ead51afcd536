// How the codes of a group of rows stand in memory (quant/matrix_layout.h), as constants of kernels. Kernel
// files of every instruction set include this: functions with bodies are inlined always, so that no symbol of
// theirs is shared.
#pragma once

#include <cstdint>

#include "quant/code_values.h"

namespace stoa::quant {
enum class BlockType : std::uint8_t;
}

namespace stoa::ops {

enum class WeightFormat : std::uint8_t {
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4
};
WeightFormat weight_format(quant::BlockType type);

struct FormatTraits {
  int low_bits, high_bits;
  int zero;
  int block_units;  // units of 32 columns of a block
  int scale_bytes;  // of a block, of one row
  int parts;        // scales of a unit
  bool minimum;
  // Whether products see what codes stand for, plus `zero`, instead of the codes, and these values. Two
  // fields: with sanitizers, GCC 12 does not accept a comparison of an address with null as a constant.
  bool looks_up = false;
  const quant::CodeValues* values = nullptr;
};
// By WeightFormat.
inline constexpr FormatTraits kFormatTraits[] = {
    {8, 0, 128, 1, 2, 1, false},                               // Q8_0
    {4, 0, 8, 1, 2, 1, false},                                 // Q4_0
    {4, 0, 0, 1, 4, 1, true},                                  // Q4_1
    {4, 1, 16, 1, 2, 1, false},                                // Q5_0
    {4, 1, 0, 1, 4, 1, true},                                  // Q5_1
    {4, 0, 0, 8, 16, 1, true},                                 // Q4_K
    {4, 1, 0, 8, 16, 1, true},                                 // Q5_K
    {4, 2, 32, 8, 18, 2, false},                               // Q6_K
    {4, 0, 128, 1, 2, 1, false, true, &quant::kUnevenValues},  // IQ4_NL
    {4, 0, 128, 8, 8, 1, false, true, &quant::kUnevenValues},  // IQ4_XS
    {4, 0, 128, 1, 1, 1, false, true, &quant::kTwiceE2M1},     // MXFP4
};

// body.operator()<format>() of a format that is known at run time.
template <class Body>
[[gnu::always_inline]] static inline void dispatch_format(WeightFormat format, Body&& body) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return body.template operator()<WeightFormat::kQ8_0>();
    case WeightFormat::kQ4_0:
      return body.template operator()<WeightFormat::kQ4_0>();
    case WeightFormat::kQ4_1:
      return body.template operator()<WeightFormat::kQ4_1>();
    case WeightFormat::kQ5_0:
      return body.template operator()<WeightFormat::kQ5_0>();
    case WeightFormat::kQ5_1:
      return body.template operator()<WeightFormat::kQ5_1>();
    case WeightFormat::kQ4_K:
      return body.template operator()<WeightFormat::kQ4_K>();
    case WeightFormat::kQ5_K:
      return body.template operator()<WeightFormat::kQ5_K>();
    case WeightFormat::kQ6_K:
      return body.template operator()<WeightFormat::kQ6_K>();
    case WeightFormat::kIQ4_NL:
      return body.template operator()<WeightFormat::kIQ4_NL>();
    case WeightFormat::kIQ4_XS:
      return body.template operator()<WeightFormat::kIQ4_XS>();
    case WeightFormat::kMXFP4:
      return body.template operator()<WeightFormat::kMXFP4>();
  }
}

}  // namespace stoa::ops
