#include "comm/rank_order_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace stoa::comm {

namespace {

constexpr std::int64_t kBlock = 1024;  // accumulators that stay in the first-level cache

template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>,
                                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                                       std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class A>
A combine(A a, A b, ReduceOp op) {
  if (op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<A>)  // wraps, as unsigned arithmetic does
      return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
  if constexpr (std::is_floating_point_v<A>)
    if (b != b) return b;
  return b > a ? b : a;  // false when a is NaN: NaN stays
}

template <class T>
void reduce(ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            std::int64_t count) {
  using A = Accumulator<T>;
  std::array<A, kBlock> sum;
  std::array<T, kBlock> rounded;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T* const first = static_cast<const T*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(first[i]);
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const T* const x = static_cast<const T*>(inputs[r]) + begin;
      if (op == ReduceOp::kSum)
        for (std::int64_t i = 0; i < n; ++i) sum[i] = combine(sum[i], static_cast<A>(x[i]), ReduceOp::kSum);
      else
        for (std::int64_t i = 0; i < n; ++i) sum[i] = combine(sum[i], static_cast<A>(x[i]), ReduceOp::kMax);
    }
    for (std::int64_t i = 0; i < n; ++i) rounded[i] = static_cast<T>(sum[i]);
    for (void* const out : outputs)
      std::memcpy(static_cast<T*>(out) + begin, rounded.data(), static_cast<std::size_t>(n) * sizeof(T));
  }
}

}  // namespace

void reduce_in_rank_order(DType type, ReduceOp op, std::span<const void* const> inputs,
                          std::span<void* const> outputs, std::int64_t count) {
  switch (type) {
    case DType::kF64:
      return reduce<double>(op, inputs, outputs, count);
    case DType::kF32:
      return reduce<float>(op, inputs, outputs, count);
    case DType::kBF16:
      return reduce<bf16>(op, inputs, outputs, count);
    case DType::kF16:
      return reduce<f16>(op, inputs, outputs, count);
    case DType::kI64:
      return reduce<std::int64_t>(op, inputs, outputs, count);
    case DType::kI32:
      return reduce<std::int32_t>(op, inputs, outputs, count);
    case DType::kU8:
      return reduce<std::uint8_t>(op, inputs, outputs, count);
    default:
      fail<InternalError>("no sums of {}", name_of(type));
  }
}

}  // namespace stoa::comm
