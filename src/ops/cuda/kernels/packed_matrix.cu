#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/packed_matrix.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;

// A thread has V neighbouring numbers of a row.
template <class T, int V>
struct Int8Kernel {
  using Args = PackedMatrixArgs;
  static constexpr const char* kName = "unpack int8";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = (t.block_x() * kBlock + t.index()) * V;
    if (i >= a.rows * a.columns) return;
    const auto* codes = static_cast<const std::int8_t*>(a.codes) + i;
    const float scale = a.scales[i / a.columns];
    float x[V];
    if constexpr (V == 8) {
      const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(codes);
      STOA_UNROLL
      for (int j = 0; j < V; ++j)
        x[j] = static_cast<float>(static_cast<std::int8_t>(word >> (8 * j))) * scale;
    } else {
      x[0] = static_cast<float>(codes[0]) * scale;
    }
    store_pack<V>(static_cast<T*>(a.out) + i, x);
  }
};

// A thread has 8 neighbouring numbers of a block of 64.
constexpr int kNf4Block = 64, kNf4Group = 256, kEach = 8;

struct Nf4Args {
  PackedMatrixArgs matrix;
  Nf4Tables tables;
};

template <class T>
struct Nf4Kernel {
  using Args = Nf4Args;
  static constexpr const char* kName = "unpack nf4";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const PackedMatrixArgs& a = args.matrix;
    // Lanes look up numbers of their own: shared memory, where that costs less than in arguments.
    auto* values = t.shared<float>();
    if (t.index() < 16) values[t.index()] = args.tables.values[t.index()];
    t.sync();
    const std::int64_t i = (t.block_x() * kBlock + t.index()) * kEach;
    if (i >= a.rows * a.columns) return;
    const std::int64_t row = i / a.columns, block = a.first[row] + (i - row * a.columns) / kNf4Block;
    const float* group = a.groups + block / kNf4Group * 2;
    const float magnitude =
        rounded_product(args.tables.dynamic[a.magnitudes[i / kNf4Block]], group[0]) + group[1];
    const std::uint32_t codes = static_cast<const std::uint32_t*>(a.codes)[i / kEach];
    float x[kEach];
    STOA_UNROLL
    for (int j = 0; j < kEach; ++j) {
      const std::uint32_t pair = codes >> (8 * (j / 2));
      x[j] = values[(j % 2 == 0 ? pair >> 4 : pair) & 15u] * magnitude;
    }
    store_pack<kEach>(static_cast<T*>(a.out) + i, x);
  }
};

}  // namespace

void launch_unpack_int8(const PackedMatrixArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    with_width(a.columns % 8 == 0, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      launch<Int8Kernel<decltype(type), kV>>(
          {.x = ceil_div(a.rows * a.columns, kBlock * kV), .threads = kBlock}, stream, a);
    });
  });
}

void launch_unpack_nf4(const PackedMatrixArgs& a, const Nf4Tables& tables, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    launch<Nf4Kernel<decltype(type)>>(
        {.x = ceil_div(a.rows * a.columns, kBlock * kEach), .threads = kBlock, .shared = 16 * sizeof(float)},
        stream, {a, tables});
  });
}

}  // namespace stoa::ops::cuda
