#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/transfer.h"
#include "ops/cuda/kernels/unit.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kMostBlocks = 4096;  // threads continue to further elements

Grid grid_of(std::int64_t count) {
  const std::int64_t blocks = ceil_div(count, kBlock);
  return {.x = blocks < kMostBlocks ? blocks : kMostBlocks, .threads = kBlock};
}

struct CopyArgs {
  const void* from;
  void* to;
  std::int64_t units;
};

template <class Unit>
struct CopyKernel {
  using Args = CopyArgs;
  static constexpr const char* kName = "copy between ranks";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    for (std::int64_t i = t.block_x() * t.count() + t.index(); i < a.units; i += t.blocks_x() * t.count())
      copy_unit(static_cast<const Unit*>(a.from) + i, static_cast<Unit*>(a.to) + i);
  }
};

template <class T>
struct Wide {
  using Type = float;
};
template <>
struct Wide<double> {
  using Type = double;
};
template <>
struct Wide<std::int64_t> {
  using Type = std::int64_t;
};
template <>
struct Wide<std::int32_t> {
  using Type = std::int64_t;
};
template <>
struct Wide<std::uint8_t> {
  using Type = std::uint64_t;
};

template <class T>
STOA_DEVICE typename Wide<T>::Type load_wide(const void* from, std::int64_t i) {
  const T x = static_cast<const T*>(from)[i];
  if constexpr (std::is_integral_v<T>)
    return static_cast<typename Wide<T>::Type>(x);
  else
    return widen(x);
}

template <class T>
STOA_DEVICE void store_narrow(void* to, std::int64_t i, typename Wide<T>::Type x) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    static_cast<T*>(to)[i] = static_cast<T>(x);
  else
    narrow(x, static_cast<T*>(to)[i]);
}

template <bool kMaximum, class A>
STOA_DEVICE A combine(A a, A b) {
  if constexpr (kMaximum) {
    if (b != b) return b;
    return b > a ? b : a;  // false when a is NaN: NaN stays
  } else if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));  // wraps
  } else {
    return a + b;
  }
}

template <class T, bool kMaximum>
struct RankOrderReduceKernel {
  using Args = RankOrderReduceArgs;
  static constexpr const char* kName = "sum over ranks";
  static constexpr int kThreads = kBlock;
  // A thread reads an element of all inputs before it writes one: outputs may be inputs.
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    for (std::int64_t i = t.block_x() * t.count() + t.index(); i < a.count; i += t.blocks_x() * t.count()) {
      auto sum = load_wide<T>(a.input[0], i);
      for (int r = 1; r < a.inputs; ++r) sum = combine<kMaximum>(sum, load_wide<T>(a.input[r], i));
      for (int o = 0; o < a.outputs; ++o) store_narrow<T>(a.output[o], i, sum);
    }
  }
};

template <class T>
void launch_reduce(const RankOrderReduceArgs& a, void* stream) {
  if (a.maximum)
    launch<RankOrderReduceKernel<T, true>>(grid_of(a.count), stream, a);
  else
    launch<RankOrderReduceKernel<T, false>>(grid_of(a.count), stream, a);
}

template <class Unit>
void launch_copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  const std::int64_t units = bytes / static_cast<std::int64_t>(sizeof(Unit));
  launch<CopyKernel<Unit>>(grid_of(units), stream, {from, to, units});
}

}  // namespace

void launch_copy_bytes(void* to, const void* from, std::int64_t bytes, void* stream) {
  const auto all = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) |
                   static_cast<std::uintptr_t>(bytes);
  if (all % 16 == 0)
    launch_copy<Bytes16>(to, from, bytes, stream);
  else if (all % 4 == 0)
    launch_copy<std::uint32_t>(to, from, bytes, stream);
  else if (all % 2 == 0)
    launch_copy<std::uint16_t>(to, from, bytes, stream);
  else
    launch_copy<std::uint8_t>(to, from, bytes, stream);
}

void launch_rank_order_reduce(const RankOrderReduceArgs& a, void* stream) {
  switch (a.type) {
    case ReducedType::kF64:
      return launch_reduce<double>(a, stream);
    case ReducedType::kF32:
      return launch_reduce<float>(a, stream);
    case ReducedType::kBF16:
      return launch_reduce<bf16>(a, stream);
    case ReducedType::kF16:
      return launch_reduce<f16>(a, stream);
    case ReducedType::kI64:
      return launch_reduce<std::int64_t>(a, stream);
    case ReducedType::kI32:
      return launch_reduce<std::int32_t>(a, stream);
    case ReducedType::kU8:
      return launch_reduce<std::uint8_t>(a, stream);
  }
}

}  // namespace stoa::ops::cuda
