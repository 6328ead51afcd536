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

// The shape of a cache of keys or of values. A head's rows of a block are neighbours: attention reads the
// rows of one head at a time, and memory is fastest where they follow each other.
struct CacheShape {
  std::int64_t blocks = 0, heads = 0, rows = 0, width = 0;  // rows: of a block; width: cached_width(d)

  CacheShape(std::int64_t blocks_, std::int64_t heads_, std::int64_t rows_, std::int64_t width_)
      : blocks(blocks_), heads(heads_), rows(rows_), width(width_) {}
  explicit CacheShape(const TensorView& cache)
      : CacheShape(cache.shape[0], cache.shape[1], cache.shape[2], cache.shape[3]) {}
  Shape shape() const { return {blocks, heads, rows, width}; }
};

// Whether keys are in the blocks of a cache.
inline bool in_blocks(const TensorView& keys) { return keys.shape.rank() == 4; }

// Row index[i] of y = x[i], rounded to nearest even; as codes where y is kU8. A number beyond fp16 becomes
// NaN there: attention would take an infinite key for a masked one.
struct ScatterRows {
  static constexpr const char* kName = "scatter rows";
  TensorView x;      // [T, G, d]; rows may be strided
  TensorView index;  // int32 [T], none twice: row j of a cache is row j % R of block j / R
  TensorView y;  // [blocks, G, R, cached_width(d)]: x's type, bf16, fp16 or kU8; fp64 goes with fp64 alone

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("index", a.index, Access::kRead);
    f("y", a.y, Access::kReadWrite);
  }
};

}  // namespace stoa::ops
