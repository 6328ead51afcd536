#include "ops/cpu/cache_rows_kernels.h"

#include <type_traits>

#include "ops/cache_codes.h"
#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

typedef std::int8_t Codes __attribute__((vector_size(kLanes)));

// A head's row in the type E.
template <class E>
STOA_INLINE void put_rounded(Element type, const void* x, std::int64_t count, void* to) {
  for_vectors(count, [&](std::int64_t i, auto part) {
    F numbers = get_any(type, x, i, part);
    if constexpr (std::is_same_v<E, F16>)
      numbers = select((numbers >= splat(kBeyondF16)) | (numbers <= splat(-kBeyondF16)),
                       splat(__builtin_nanf("")), numbers);
    E::put(static_cast<typename E::Storage*>(to) + i, numbers, part);
  });
}

// At most kCacheColumns numbers, 0 behind them, as codes; returns the bits of their scale.
STOA_INLINE std::uint16_t encode_neighbours(const float* x, std::int64_t count, std::int8_t* to) {
  // As integers, magnitudes have their order, and NaN is above all.
  I largest{};
  for (int i = 0; i < kCacheColumns; i += kLanes) {
    const I magnitude = reinterpret_cast<I>(reinterpret_cast<U>(load(x + i)) & 0x7fffffffu);
    largest = magnitude > largest ? magnitude : largest;
  }
  std::int32_t top = 0;
  for (int i = 0; i < kLanes; ++i) top = largest[i] > top ? largest[i] : top;
  const H scale = to_bf16_exactly(splat(__builtin_bit_cast(float, top) / kLargestCacheCode));
  const float unit = from_bf16(scale)[0];
  const float inverse = unit >= kLeastCacheScale && unit <= __FLT_MAX__ ? 1 / unit : 0.0f;
  std::int8_t codes[kCacheColumns];
  for (int i = 0; i < kCacheColumns; i += kLanes) {
    const F code = round_to_integer(load(x + i) * inverse);
    const F within = min(max(code, splat(-kLargestCacheCode)), splat(kLargestCacheCode));
    const Codes bytes = __builtin_convertvector(__builtin_convertvector(within, I), Codes);
    std::memcpy(codes + i, &bytes, sizeof(bytes));
  }
  std::memcpy(to, codes, static_cast<std::size_t>(count));
  return scale[0];
}

STOA_INLINE void put_codes(Element type, const void* x, std::int64_t d, std::int8_t* to) {
  std::int8_t* scale = to + d;
  for (std::int64_t begin = 0; begin < d; begin += kCacheColumns, scale += 2) {
    const std::int64_t count = d - begin < kCacheColumns ? d - begin : kCacheColumns;
    float numbers[kCacheColumns] = {};
    for_vectors(count, [&](std::int64_t i, auto part) {
      F32::put(numbers + i, get_any(type, x, begin + i, part), part);
    });
    const std::uint16_t unit = encode_neighbours(numbers, count, to + begin);
    std::memcpy(scale, &unit, sizeof(unit));
  }
}

void scatter(const ScatterJob& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = job.type == Element::kF32 ? 4 : 2;
  // put(head, its place in y) for all heads of these rows.
  const auto for_heads = [&](auto put) __attribute__((always_inline)) {
    for (std::int64_t r = begin; r < end; ++r) {
      const char* x = static_cast<const char*>(job.x) + r * job.stride * size;
      const std::int64_t block = job.index[r] / job.block_rows,
                         inside = job.index[r] - block * job.block_rows;
      for (std::int64_t h = 0; h < job.heads; ++h)
        put(x + h * job.d * size, ((block * job.heads + h) * job.block_rows + inside) * job.width);
    }
  };
  switch (job.form) {
    case CacheForm::kF32:
      return for_heads([&](const void* x, std::int64_t at) {
        put_rounded<F32>(job.type, x, job.d, static_cast<float*>(job.y) + at);
      });
    case CacheForm::kBF16:
      return for_heads([&](const void* x, std::int64_t at) {
        put_rounded<BF16>(job.type, x, job.d, static_cast<std::uint16_t*>(job.y) + at);
      });
    case CacheForm::kF16:
      return for_heads([&](const void* x, std::int64_t at) {
        put_rounded<F16>(job.type, x, job.d, static_cast<std::uint16_t*>(job.y) + at);
      });
    case CacheForm::kCodes:
      return for_heads([&](const void* x, std::int64_t at) {
        put_codes(job.type, x, job.d, static_cast<std::int8_t*>(job.y) + at);
      });
  }
}

}  // namespace

const CacheRowsKernels& cache_rows_kernels() {
  static constexpr CacheRowsKernels kTable{scatter};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
