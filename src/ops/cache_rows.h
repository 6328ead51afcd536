// Keys and values of new tokens on their way into a cache, in the type that the cache keeps.
#pragma once

#include "ops/access.h"
#include "ops/cache_codes.h"
#include "tensor/dtype.h"

namespace stoa::ops {

// Elements of a head of d numbers in a cache of this type. kU8: a signed byte (code) for each number, then
// for every kCacheColumns of them their scale in bf16. The scale is the largest magnitude / 127, a number is
// its code times the scale. An even number of bytes: whole blocks are copied as 16-bit words.
constexpr std::int64_t cached_width(DType type, std::int64_t d) {
  return type == DType::kU8 ? d + d % 2 + 2 * ((d + kCacheColumns - 1) / kCacheColumns) : d;
}

// y[index[i]] = x[i], rounded to nearest even; as codes where y is kU8. A number beyond fp16 becomes NaN
// there: attention would take an infinite key for a masked one.
struct ScatterRows {
  static constexpr const char* kName = "scatter rows";
  TensorView x;      // [T, G, d]; rows may be strided
  TensorView index;  // int32 [T], none twice
  TensorView y;      // [N, G, cached_width(d)]: x's type, bf16, fp16 or kU8; fp64 goes with fp64 alone

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("index", a.index, Access::kRead);
    f("y", a.y, Access::kReadWrite);
  }
};

}  // namespace stoa::ops
