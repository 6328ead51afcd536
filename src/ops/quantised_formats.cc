#include "ops/quantised_formats.h"

#include "base/error.h"
#include "quant/block_format.h"

namespace stoa::ops {

WeightFormat weight_format(quant::BlockType type) {
  using quant::BlockType;
  switch (type) {
    case BlockType::kQ8_0:
      return WeightFormat::kQ8_0;
    case BlockType::kQ4_0:
      return WeightFormat::kQ4_0;
    case BlockType::kQ4_1:
      return WeightFormat::kQ4_1;
    case BlockType::kQ5_0:
      return WeightFormat::kQ5_0;
    case BlockType::kQ5_1:
      return WeightFormat::kQ5_1;
    case BlockType::kQ4_K:
      return WeightFormat::kQ4_K;
    case BlockType::kQ5_K:
      return WeightFormat::kQ5_K;
    case BlockType::kQ6_K:
      return WeightFormat::kQ6_K;
    case BlockType::kIQ4_NL:
      return WeightFormat::kIQ4_NL;
    case BlockType::kIQ4_XS:
      return WeightFormat::kIQ4_XS;
    case BlockType::kMXFP4:
      return WeightFormat::kMXFP4;
    default:
      fail<InternalError>("no product with {}", quant::format_of(type).name);
  }
}

}  // namespace stoa::ops
