#include "ops/cuda/kernels/float8.h"
#include "ops/cuda/kernels/fp8.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/step_slot.h"
#include "ops/fp8_scale.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kRowsEach = 8;  // rows of a block that finds a maximum, at least

constexpr std::uint32_t kInfinity = 0x7f800000u;

STOA_DEVICE float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
STOA_DEVICE float nan_for_infinity(float x) {
  return bits_of(magnitude(x)) == kInfinity ? float_of(0x7fc00000u) : x;
}

// Stores V adjacent codes.
template <int V>
STOA_DEVICE void put_codes(std::uint8_t* to, const std::uint8_t (&bytes)[V]) {
  if constexpr (V == 1) {
    to[0] = bytes[0];
  } else {
    STOA_UNROLL
    for (int word = 0; word < V / 4; ++word)
      reinterpret_cast<std::uint32_t*>(to)[word] = bytes[4 * word] |
                                                   static_cast<std::uint32_t>(bytes[4 * word + 1]) << 8 |
                                                   static_cast<std::uint32_t>(bytes[4 * word + 2]) << 16 |
                                                   static_cast<std::uint32_t>(bytes[4 * word + 3]) << 24;
  }
}

// Quantizes the V values at `from` to codes, and raises `largest` to their largest magnitude.
template <Float8 kType, int V, class T>
STOA_DEVICE void cast_codes(const T* from, float scale, std::uint8_t (&codes)[V], float& largest) {
  float x[V];
  load_pack<V>(from, x);
  STOA_UNROLL
  for (int j = 0; j < V; ++j) {
    codes[j] = to_float8<kType>(nan_for_infinity(x[j]) * scale);
    largest = Max::of(largest, magnitude(x[j]));
  }
}

// The largest magnitude of rows [block * each, (block + 1) * each).
template <class T, int V>
struct RowsMaxKernel {
  struct Args {
    AbsoluteMaxArgs of;
    std::int64_t each;
  };
  static constexpr const char* kName = "absolute maximum";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t begin = t.block_x() * a.each, columns = a.of.x.columns;
    const std::int64_t end = begin + a.each < a.of.rows ? begin + a.each : a.of.rows;
    float largest = 0;
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = row_of<T>(a.of.x, r);
      for (std::int64_t c = static_cast<std::int64_t>(t.index()) * V; c < columns; c += kBlock * V) {
        float x[V];
        load_pack<V>(row + c, x);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) largest = Max::of(largest, magnitude(x[j]));
      }
    }
    largest = block_reduce<Max>(t, largest, t.shared<float>());
    if (t.index() == 0) a.of.partial[t.block_x()] = largest;
  }
};

struct LargestKernel {
  struct Args {
    const float* partial;
    std::int64_t blocks;
    float* amax;
  };
  static constexpr const char* kName = "absolute maximum of blocks";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    float largest = 0;
    for (std::int64_t i = t.index(); i < a.blocks; i += t.count()) largest = Max::of(largest, a.partial[i]);
    largest = block_reduce<Max>(t, largest, t.shared<float>());
    if (t.index() == 0) *a.amax = largest;
  }
};

// A block casts a tile of kTileRows x kTileColumns. It assembles the transposed copy in shared memory, so
// that it writes whole lines of it.
constexpr int kTileRows = 128, kTileColumns = 64;
constexpr int kPitch = kTileRows + 4;  // bytes of a line there: neighbouring lines begin in other banks
constexpr std::size_t kLines = kTileColumns * kPitch;

template <class T, Float8 kType, int V>
struct QuantizeKernel {
  using Args = QuantizeArgs;
  static constexpr const char* kName = "quantize";
  static constexpr int kThreads = kBlock;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const float scale = fp8_scale(*a.amax, a.largest, a.factor);
    if (t.block_x() == 0 && t.block_y() == 0 && t.index() == 0) *a.inverse_scale = 1 / scale;
    const std::int64_t row = t.block_x() * kTileRows, column = t.block_y() * kTileColumns;
    auto* lines = t.shared<std::uint8_t>();
    float largest = 0;
    constexpr int kPacks = kTileColumns / V;
    for (int i = t.index(); i < kTileRows * kPacks; i += kBlock) {
      const std::int64_t r = row + i / kPacks, c = column + i % kPacks * V;
      std::uint8_t out[V] = {};
      if (r < a.rows && c < a.x.columns) {
        cast_codes<kType>(row_of<T>(a.x, r) + c, scale, out, largest);
        if (a.y) put_codes(a.y + r * a.x.columns + c, out);
      }
      STOA_UNROLL
      for (int j = 0; j < V; ++j) lines[(i % kPacks * V + j) * kPitch + i / kPacks] = out[j];
    }
    if (a.seen) {
      largest = block_reduce<Max>(t, largest, t.shared<float>() + kLines / sizeof(float));
      if (t.index() == 0) raise(a.seen, largest);
    }
    if (!a.transposed) return;
    t.sync();
    constexpr int kPieces = kTileRows / 16;
    for (int i = t.index(); i < kTileColumns * kPieces; i += kBlock) {
      const std::int64_t c = column + i / kPieces, r = row + i % kPieces * 16;
      if (c >= a.x.columns || r >= a.pitch) continue;
      const std::uint8_t* line = lines + i / kPieces * kPitch + i % kPieces * 16;
      std::uint8_t* to = a.transposed + c * a.pitch + r;
      if constexpr (V == 1) {
        for (int j = 0; j < 16; ++j) to[j] = line[j];
      } else {
        Bytes16 bytes;
        STOA_UNROLL
        for (int word = 0; word < 4; ++word) bytes.words[word] = word_of(line + 4 * word);
        store16(to, bytes);
      }
    }
  }

 private:
  STOA_DEVICE static std::uint32_t word_of(const std::uint8_t* four) {
    return *reinterpret_cast<const std::uint32_t*>(four);
  }
};

// A block processes kRowsEach consecutive rows. It updates the maximum of a group once for its rows.
template <class T, Float8 kType, int V>
struct GroupedQuantizeKernel {
  using Args = GroupedQuantizeArgs;
  static constexpr const char* kName = "grouped quantize";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    if (a.y && t.block_x() == 0)
      for (std::int64_t g = t.index(); g < a.groups; g += kBlock) a.inverse_scale[g] = 1 / scale_of(a, g);
    const std::int64_t begin = t.block_x() * kRowsEach, each = a.rows / a.groups;
    const std::int64_t end = begin + kRowsEach < a.rows ? begin + kRowsEach : a.rows;
    std::int64_t group = -1;
    float largest = 0;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t of = a.ids ? a.ids[r] : r / each;
      if (of != group) {
        keep(t, a, group, largest);
        largest = 0;
      }
      group = of;
      if (group < 0) return;  // unused, as are all that follow
      const float scale = a.y ? scale_of(a, group) : 1;
      const T* row = row_of<T>(a.x, r);
      for (std::int64_t c = static_cast<std::int64_t>(t.index()) * V; c < a.x.columns; c += kBlock * V) {
        std::uint8_t out[V];
        cast_codes<kType>(row + c, scale, out, largest);
        if (a.y) put_codes(a.y + r * a.x.columns + c, out);
      }
    }
    keep(t, a, group, largest);
  }

 private:
  STOA_DEVICE static float scale_of(const Args& a, std::int64_t group) {
    return fp8_scale(a.amax[group * a.amax_stride], a.most, a.factor);
  }
  STOA_DEVICE static void keep(const Thread& t, const Args& a, std::int64_t group, float largest) {
    if (group < 0 || !a.largest) return;
    largest = block_reduce<Max>(t, largest, t.shared<float>());
    if (t.index() == 0) raise(a.largest + group * a.largest_stride, largest);
  }
};

// A block shifts one tensor's history, from its end: all threads read a tile before it is written.
struct AmaxHistoryKernel {
  using Args = AmaxHistoryArgs;
  static constexpr const char* kName = "amax history update";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    float* history = a.history + t.block_x() * a.length;
    const float seen = a.seen[t.block_x()];
    const bool joins = slot(a.state, StepSlot::kFoundInf) == 0 && seen > 0 && bits_of(seen) < kInfinity;
    float largest = 0;
    for (std::int64_t tile = (a.length - 1) / kBlock; tile >= 0; --tile) {
      const std::int64_t i = tile * kBlock + t.index();
      float amax = 0;
      if (i < a.length) amax = !joins ? history[i] : i > 0 ? history[i - 1] : seen;
      t.sync();
      if (i < a.length) history[i] = amax;
      if (!a.most_recent || i == 0) largest = Max::of(largest, amax);
    }
    largest = block_reduce<Max>(t, largest, t.shared<float>());
    if (t.index() > 0) return;
    a.amax[t.block_x()] = largest;
    a.seen[t.block_x()] = 0;
  }
};

template <class T, int V>
void launch_tiles(const QuantizeArgs& a, void* stream) {
  // Blocks beyond the last row write zeros of the transposed copy; at least one block writes the scale.
  const std::int64_t rows = a.transposed ? a.pitch : a.rows;
  const Grid grid{.x = rows > 0 ? ceil_div(rows, kTileRows) : 1,
                  .y = a.x.columns > 0 ? ceil_div(a.x.columns, kTileColumns) : 1,
                  .threads = kBlock,
                  .shared = kLines + kBlock / 32 * sizeof(float)};
  if (a.type == Float8::kE4M3)
    launch<QuantizeKernel<T, Float8::kE4M3, V>>(grid, stream, a);
  else
    launch<QuantizeKernel<T, Float8::kE5M2, V>>(grid, stream, a);
}

}  // namespace

std::int64_t absolute_max_blocks(std::int64_t rows) {
  const std::int64_t blocks = ceil_div(rows, kRowsEach);
  return blocks < 1 ? 1 : blocks > 1024 ? 1024 : blocks;
}

void launch_absolute_max(const AbsoluteMaxArgs& a, void* stream) {
  const std::int64_t blocks = absolute_max_blocks(a.rows);
  const Grid grid{.x = blocks, .threads = kBlock, .shared = kBlock / 32 * sizeof(float)};
  with_fast_type(a.x.type, [&](auto x) {
    with_width(a.wide, [&](auto v) {
      launch<RowsMaxKernel<decltype(x), decltype(v)::value>>(grid, stream, {a, ceil_div(a.rows, blocks)});
    });
  });
  launch<LargestKernel>({.x = 1, .threads = kBlock, .shared = kBlock / 32 * sizeof(float)}, stream,
                        {a.partial, blocks, a.amax});
}

void launch_grouped_quantize(const GroupedQuantizeArgs& a, void* stream) {
  const Grid grid{.x = a.rows > 0 ? ceil_div(a.rows, kRowsEach) : 1,
                  .threads = kBlock,
                  .shared = kBlock / 32 * sizeof(float)};
  with_fast_type(a.x.type, [&](auto x) {
    with_width(a.wide, [&](auto v) {
      if (a.type == Float8::kE4M3)
        launch<GroupedQuantizeKernel<decltype(x), Float8::kE4M3, decltype(v)::value>>(grid, stream, a);
      else
        launch<GroupedQuantizeKernel<decltype(x), Float8::kE5M2, decltype(v)::value>>(grid, stream, a);
    });
  });
}

void launch_amax_history(const AmaxHistoryArgs& a, void* stream) {
  launch<AmaxHistoryKernel>({.x = a.count, .threads = kBlock, .shared = kBlock / 32 * sizeof(float)}, stream,
                            a);
}

void launch_quantize(const QuantizeArgs& a, void* stream) {
  with_fast_type(a.x.type, [&](auto x) {
    with_width(a.wide, [&](auto v) { launch_tiles<decltype(x), decltype(v)::value>(a, stream); });
  });
}

}  // namespace stoa::ops::cuda
