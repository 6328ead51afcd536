#include "ops/reference/cache_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cache_rows.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops {
namespace {

// Codes of `count` neighbours, at most kCacheColumns; returns their scale.
bf16 encode_neighbours(const float* x, std::int64_t count, std::int8_t* codes) {
  std::uint32_t largest = 0;  // as integers, magnitudes have their order, and NaN is above all
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  const bf16 scale(std::bit_cast<float>(largest) / kLargestCacheCode);
  const auto unit = static_cast<float>(scale);
  const float inverse =
      unit >= kLeastCacheScale && unit <= std::numeric_limits<float>::max() ? 1 / unit : 0.0f;
  for (std::int64_t i = 0; i < count; ++i) {
    const float code = std::nearbyint(x[i] * inverse);
    codes[i] = static_cast<std::int8_t>(code > -kLargestCacheCode ? std::min(code, kLargestCacheCode)
                                                                  : -kLargestCacheCode);
  }
  return scale;
}

void encode_head(const double* x, std::int64_t d, std::byte* to) {
  std::byte* scale = to + d;
  for (std::int64_t begin = 0; begin < d; begin += kCacheColumns, scale += sizeof(bf16)) {
    const std::int64_t count = std::min<std::int64_t>(kCacheColumns, d - begin);
    float numbers[kCacheColumns];
    std::int8_t codes[kCacheColumns];
    std::copy_n(x + begin, count, numbers);
    const bf16 unit = encode_neighbours(numbers, count, codes);
    std::memcpy(to + begin, codes, static_cast<std::size_t>(count));
    std::memcpy(scale, &unit, sizeof(unit));
  }
}

void decode_head(const std::byte* from, std::int64_t d, double* x) {
  for (std::int64_t i = 0; i < d; ++i) {
    bf16 scale;
    std::memcpy(&scale, from + d + i / kCacheColumns * static_cast<std::int64_t>(sizeof(scale)),
                sizeof(scale));
    x[i] = static_cast<double>(static_cast<std::int8_t>(from[i])) *
           static_cast<double>(static_cast<float>(scale));
  }
}

}  // namespace

Values load_cached(const TensorView& cache, std::int64_t d) {
  if (cache.dtype != DType::kU8) return load(cache);
  const std::int64_t width = cached_width(cache.dtype, d), heads = cache.elements() / width;
  Values out(static_cast<std::size_t>(heads * d));
  for (std::int64_t h = 0; h < heads; ++h)
    decode_head(static_cast<const std::byte*>(cache.data) + h * width, d, out.data() + h * d);
  return out;
}

void ReferenceBackend::execute(const ScatterRows& op, Resources) {
  const std::int64_t heads = op.x.shape[1], d = op.x.shape[2];
  const Values x = load(op.x);
  const auto index = load_integers(op.index);
  const CacheShape cache(op.y);
  const TensorView rows = op.y.reshape({cache.blocks * heads * cache.rows, cache.width});
  for (std::int64_t i = 0; i < op.x.rows(); ++i) {
    require<DataError>(index[i] >= 0 && index[i] < cache.blocks * cache.rows, "scatter rows: row {} of {}",
                       index[i], cache.blocks * cache.rows);
    for (std::int64_t h = 0; h < heads; ++h) {
      const double* from = x.data() + (i * heads + h) * d;
      const std::int64_t block = index[i] / cache.rows, inside = index[i] % cache.rows;
      const TensorView to = rows.slice((block * heads + h) * cache.rows + inside, 1);
      if (op.y.dtype == DType::kU8) {
        encode_head(from, d, static_cast<std::byte*>(to.data));
        continue;
      }
      Values rounded(from, from + d);
      if (op.y.dtype == DType::kF16)
        for (double& number : rounded)
          if (std::fabs(number) >= static_cast<double>(kBeyondF16)) number = std::nan("");
      store(rounded, to);
    }
  }
}

}  // namespace stoa::ops
