// Where the parts of a packed matrix's memory begin, in bytes: packed_int8.cc and packed_nf4.cc say what is
// in them.
#pragma once

#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/packed_matrix.h"

namespace stoa::quant {

struct Int8Places {
  explicit Int8Places(const PackedShape& shape)
      : scales(whole_lines(shape.rows * shape.columns)),
        end(scales + whole_lines(shape.rows * static_cast<std::int64_t>(sizeof(float)))) {}
  std::size_t scales, end;
};

struct Nf4Places {
  static constexpr std::int64_t kGroupBytes = 2 * sizeof(float);

  explicit Nf4Places(const PackedShape& shape)
      : magnitudes(whole_lines(shape.rows * shape.columns / 2)),
        first(magnitudes + whole_lines(shape.rows * shape.columns / kNf4Block)),
        groups(first + whole_lines(shape.rows * static_cast<std::int64_t>(sizeof(std::int32_t)))),
        end(groups + whole_lines(shape.groups * kGroupBytes)) {}
  std::size_t magnitudes, first, groups, end;
};

}  // namespace stoa::quant
