#include "ops/cpu/gemm_kernels.h"

#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/reduce_eight.h"
#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

#if STOA_ISA_LEVEL >= 2
constexpr int kRows = 8, kVectors = 3, kBlock = 384;  // 24 of 32 registers hold sums
#elif STOA_ISA_LEVEL == 1
constexpr int kRows = 4, kVectors = 3, kBlock = 256;  // 12 of 16
#else
constexpr int kRows = 4, kVectors = 2,
              kBlock = 256;  // 8 of 16: products need a register where there is no fma
#endif
constexpr int kSlice = 2048;
constexpr int kColumns = kVectors * kLanes;
constexpr std::int64_t kPackedBytes = 512 << 10;  // half of a 1 MiB L2 cache
constexpr std::int64_t kMostRows = 128;

// --- register tiles ---

struct FloatUnits {
  STOA_INLINE F broadcast(const std::uint32_t* unit) {
    float x;
    std::memcpy(&x, unit, 4);
    return splat(x);
  }
  STOA_INLINE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
};
#if STOA_ISA_LEVEL >= 3
struct PairUnits {
  STOA_INLINE F broadcast(const std::uint32_t* unit) {
    return reinterpret_cast<F>(_mm512_set1_epi32(static_cast<int>(*unit)));
  }
  STOA_INLINE F multiply_add(F a, F b, F c) {
    return reinterpret_cast<F>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(c), reinterpret_cast<__m512bh>(a),
                                                reinterpret_cast<__m512bh>(b)));
  }
};
#endif

template <Element E, int V>
STOA_INLINE void finish(const F (&c)[kRows][V], std::int64_t rows, std::int64_t columns,
                        const StoreJob& job) {
  const int tail = static_cast<int>(columns - (V - 1) * kLanes);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (i >= rows) break;
    const std::int64_t at = i * job.out_stride;
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      F x = c[i][j];
      if (j < V - 1 || tail == kLanes) {
        if (job.bias) x = x + load(job.bias + j * kLanes);
        if (job.accumulate) x = load_as<E>(job.out, at + j * kLanes) + x;
        store_as<E>(job.out, at + j * kLanes, x);
      } else {
        if (job.bias) x = x + load_first(job.bias + j * kLanes, tail);
        if (job.accumulate) x = load_first_as<E>(job.out, at + j * kLanes, tail) + x;
        store_first_as<E>(job.out, at + j * kLanes, x, tail);
      }
    }
  }
}

template <class Units, int V>
STOA_INLINE void tile(const TileJob& job) {
  const std::uint32_t *a = job.a, *b = job.b;
  float* const sums = job.sums;
  F c[kRows][V];
  if (job.first) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = F{};
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = load(sums + i * kColumns + j * kLanes);
  }
  for (std::int64_t u = 0; u < job.units; ++u, a += kRows, b += kColumns) {
    F y[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) y[j] = load(reinterpret_cast<const float*>(b) + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = Units::multiply_add(Units::broadcast(a + i), y[j], c[i][j]);
  }
  if (job.store)
    return dispatch(
        job.store->element, [&]<Element E>() __attribute__((always_inline)) {
          finish<E, V>(c, job.rows, job.columns, *job.store);
        });
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(sums + i * kColumns + j * kLanes, c[i][j]);
}

template <class Units, int V>
void tiles_of(const TileJob& job) {
  TileJob tile_job = job;
  StoreJob store;
  if (job.store) {
    store = *job.store;
    tile_job.store = &store;
  }
  for (std::int64_t left = job.rows; left > 0; left -= kRows) {
    tile_job.rows = least(kRows, left);
    tile<Units, V>(tile_job);
    tile_job.a += job.a_stride;
    tile_job.sums += kRows * kColumns;
    if (job.store) store.out = output_row(store, kRows);
  }
}

template <class Units>
void tiles_any(const TileJob& job) {
  if (job.columns > (kVectors - 1) * kLanes) return tiles_of<Units, kVectors>(job);
  if constexpr (kVectors > 2)
    if (job.columns > kLanes) return tiles_of<Units, 2>(job);
  tiles_of<Units, 1>(job);
}

// --- few tokens ---

constexpr int kStreamTokens = 8;

// Inputs in lanes: floats converted from E, or pairs of bf16.
template <Element E>
struct StreamFloats {
  static constexpr int kStep = kLanes;
  static constexpr int kBytes = E == Element::kF32 ? 4 : 2;
  STOA_INLINE F get(const void* p, std::int64_t i) { return load_as<E>(p, i); }
  STOA_INLINE F get_first(const void* p, std::int64_t i, int n) { return load_first_as<E>(p, i, n); }
  STOA_INLINE F multiply_add(F a, F b, F c) { return fma(a, b, c); }
};
#if STOA_ISA_LEVEL >= 3
struct StreamPairs {
  static constexpr int kStep = 2 * kLanes;
  static constexpr int kBytes = 2;
  STOA_INLINE F get(const void* p, std::int64_t i) {
    return reinterpret_cast<F>(PairOf::load_row(p, i, kStep));
  }
  STOA_INLINE F get_first(const void* p, std::int64_t i, int n) {
    return reinterpret_cast<F>(PairOf::load_row(p, i, n));
  }
  STOA_INLINE F multiply_add(F a, F b, F c) {
    return reinterpret_cast<F>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(c), reinterpret_cast<__m512bh>(a),
                                                reinterpret_cast<__m512bh>(b)));
  }
};
#endif

// out[t, n … n + rows) = the sums of eight[r * T + t], and bias.
template <int T>
STOA_INLINE void finish_stream(const StreamJob& job, std::int64_t t0, std::int64_t n, int rows,
                               const F (&eight)[8]) {
  float sums[8 + kLanes];
  reduce8(eight, sums);
  dispatch(
      job.out_element, [&]<Element O>() __attribute__((always_inline)) {
        if constexpr (T == 1 && kLanes >= 8) {
          F sum = load(sums);
          if (job.bias) sum = sum + load_first(job.bias + n, rows);
          store_first_as<O>(job.out, t0 * job.out_stride + n, sum, rows);
        } else {
          for (int r = 0; r < rows; ++r)
            for (int t = 0; t < T; ++t) {
              const float sum = sums[r * T + t] + (job.bias ? job.bias[n + r] : 0.0f);
              store_first_as<O>(job.out, (t0 + t) * job.out_stride + n + r, splat(sum), 1);
            }
        }
      });
}

// One row of w after the other, in the order of memory: several rows side by side reach half the bandwidth,
// since the processor then foresees nothing. A row's sum is formed in the same order wherever the row lies.
// Nothing between two rows may hold up the loads that follow.
template <class Lanes, int T>
void stream_tokens(const StreamJob& job, std::int64_t t0) {
  constexpr int kRowsAtOnce = 8 / T;     // whose lanes are summed together
  constexpr std::int64_t kFetch = 8192;  // bytes ahead, into the L2 cache: more can be under way than to L1
  for (std::int64_t n = job.first; n < job.end; n += kRowsAtOnce) {
    const int rows = static_cast<int>(least(kRowsAtOnce, job.end - n));
    F eight[8];
#pragma GCC unroll 8
    for (int i = kRowsAtOnce * T; i < 8; ++i) eight[i] = F{};
    for (int r = 0; r < kRowsAtOnce; ++r) {
      // The last row again rather than none: clearing what is not summed would cost every row.
      const std::int64_t row = least(n + r, job.end - 1);
      const std::int64_t row_bytes = job.w_stride * Lanes::kBytes;
      const auto* w = static_cast<const char*>(job.w) + row * row_bytes;
      const std::int64_t ahead = (job.fetched - row) * row_bytes > kFetch ? kFetch : 0;
      F c[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) c[t] = F{};
      std::int64_t k = 0;
      for (; k + Lanes::kStep <= job.inputs; k += Lanes::kStep) {
        __builtin_prefetch(w + k * Lanes::kBytes + ahead, 0, 2);
        const F y = Lanes::get(w, k);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
          c[t] = Lanes::multiply_add(y, Lanes::get(job.x, (t0 + t) * job.x_stride + k), c[t]);
      }
      if (k < job.inputs) {
        const int left = static_cast<int>(job.inputs - k);
        const F y = Lanes::get_first(w, k, left);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
          c[t] = Lanes::multiply_add(y, Lanes::get_first(job.x, (t0 + t) * job.x_stride + k, left), c[t]);
      }
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) eight[r * T + t] = c[t];
    }
    finish_stream<T>(job, t0, n, rows, eight);
  }
}

// Many tokens: tiles of a few rows of w and a few tokens, with the sums of each in the order of
// stream_tokens(). Their sums are put together to whole vectors of outputs.
constexpr int kManyRows = kRegisters == 32 ? 4 : 2, kManyTokens = kRegisters == 32 ? 6 : 4;
constexpr std::int64_t kManyBytes = 192 << 10;  // of x, and of w, that stay in the L2 cache
static_assert(kLanes % kManyRows == 0);

// sums[t * kLanes + r] = row n + r of w and token t0 + t.
template <class Lanes, int T>
STOA_INLINE void stream_tile(const StreamJob& job, std::int64_t t0, std::int64_t n, float* sums) {
  const char* w[kManyRows];
#pragma GCC unroll 4
  for (int r = 0; r < kManyRows; ++r)
    w[r] = static_cast<const char*>(job.w) + least(n + r, job.end - 1) * job.w_stride * Lanes::kBytes;
  F c[T * kManyRows];
#pragma GCC unroll 24
  for (int i = 0; i < T * kManyRows; ++i) c[i] = F{};
  std::int64_t k = 0;
  for (; k + Lanes::kStep <= job.inputs; k += Lanes::kStep) {
    F y[kManyRows];
#pragma GCC unroll 4
    for (int r = 0; r < kManyRows; ++r) {
      __builtin_prefetch(w[r] + (kManyRows * job.w_stride + k) * Lanes::kBytes, 0, 2);
      y[r] = Lanes::get(w[r], k);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const F x = Lanes::get(job.x, (t0 + t) * job.x_stride + k);
#pragma GCC unroll 4
      for (int r = 0; r < kManyRows; ++r)
        c[t * kManyRows + r] = Lanes::multiply_add(y[r], x, c[t * kManyRows + r]);
    }
  }
  // Unrolled as the loop above: sums stay in registers.
  if (k < job.inputs) {
    const int left = static_cast<int>(job.inputs - k);
    F y[kManyRows];
#pragma GCC unroll 4
    for (int r = 0; r < kManyRows; ++r) y[r] = Lanes::get_first(w[r], k, left);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const F x = Lanes::get_first(job.x, (t0 + t) * job.x_stride + k, left);
#pragma GCC unroll 4
      for (int r = 0; r < kManyRows; ++r)
        c[t * kManyRows + r] = Lanes::multiply_add(y[r], x, c[t * kManyRows + r]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < T * kManyRows; i += 8) {
    F eight[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) eight[j] = i + j < T * kManyRows ? c[i + j] : F{};
    float all[8];
    reduce8(eight, all);
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += kManyRows)
      if (i + j < T * kManyRows) std::memcpy(sums + (i + j) / kManyRows * kLanes, all + j, kManyRows * 4);
  }
}

// Rows [n, n + kLanes) of w, as far as they exist, and T tokens.
template <class Lanes, int T>
void stream_rows(const StreamJob& job, std::int64_t t0, std::int64_t n) {
  float sums[T * kLanes];
  const int rows = static_cast<int>(least(kLanes, job.end - n));
  for (int r = 0; r < rows; r += kManyRows) stream_tile<Lanes, T>(job, t0, n + r, sums + r);
  dispatch(
      job.out_element, [&]<Element O>() __attribute__((always_inline)) {
        for (int t = 0; t < T; ++t) {
          F sum = load_first(sums + t * kLanes, rows);
          if (job.bias) sum = sum + load_first(job.bias + n, rows);
          store_first_as<O>(job.out, (t0 + t) * job.out_stride + n, sum, rows);
        }
      });
}

// Tokens [begin, end) in tiles that differ by one token at most: there are so many that none has fewer than
// kManyTokens - 2.
template <class Lanes>
STOA_INLINE void stream_tiles(const StreamJob& job, std::int64_t begin, std::int64_t end, std::int64_t n) {
  const std::int64_t count = end - begin, tiles = (count + kManyTokens - 1) / kManyTokens;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t t = begin + i * count / tiles;
    switch (begin + (i + 1) * count / tiles - t) {
      case kManyTokens:
        stream_rows<Lanes, kManyTokens>(job, t, n);
        break;
      case kManyTokens - 1:
        stream_rows<Lanes, kManyTokens - 1>(job, t, n);
        break;
      default:
        stream_rows<Lanes, kManyTokens - 2>(job, t, n);
    }
  }
}

template <class Lanes>
void stream_many(const StreamJob& job) {
  const std::int64_t row_bytes = job.inputs * Lanes::kBytes, fit = kManyBytes / row_bytes;
  const std::int64_t tokens = fit < 3 * kManyTokens ? 3 * kManyTokens : fit,
                     rows = fit < 2 * kLanes ? 2 * kLanes : fit / kLanes * kLanes;
  const std::int64_t parts = (job.tokens + tokens - 1) / tokens;
  // A part has nine tokens or more, or a whole number of tiles: none is too small for stream_tiles().
  const auto begin = [&](std::int64_t i) {
    return i == parts ? job.tokens : i * job.tokens / parts / kManyTokens * kManyTokens;
  };
  StreamJob part = job;
  for (part.first = job.first; part.first < job.end; part.first = part.end) {
    part.end = least(part.first + rows, job.end);
    for (std::int64_t i = 0; i < parts; ++i)
      for (std::int64_t n = part.first; n < part.end; n += kLanes)
        stream_tiles<Lanes>(part, begin(i), begin(i + 1), n);
  }
}

template <class Lanes>
void stream_with(const StreamJob& job) {
  switch (job.tokens) {
    case 1:
      return stream_tokens<Lanes, 1>(job, 0);
    case 2:
      return stream_tokens<Lanes, 2>(job, 0);
    case 3:
      return stream_tokens<Lanes, 3>(job, 0);
    case 4:
      return stream_tokens<Lanes, 4>(job, 0);
    case 5:
      return stream_tokens<Lanes, 5>(job, 0);
    case 6:
      return stream_tokens<Lanes, 6>(job, 0);
    case 7:
      return stream_tokens<Lanes, 7>(job, 0);
    case 8:
      return stream_tokens<Lanes, 8>(job, 0);
    default:
      return stream_many<Lanes>(job);
  }
}

void stream(const StreamJob& job) {
#if STOA_ISA_LEVEL >= 3
  if (job.element == Element::kBF16) return stream_with<StreamPairs>(job);
#endif
  dispatch(job.element, [&]<Element E>() { stream_with<StreamFloats<E>>(job); });
}

// --- sums over rows ---

template <Element E>
void column_sums_of(const ColumnSumJob& job) {
  for (std::int64_t j = job.first; j < job.end; j += kLanes) {
    const int n = static_cast<int>(least(kLanes, job.end - j));
    F total{};
    // Sums of 64 rows are added: fewer roundings in a row than one long sum.
    for (std::int64_t i = 0; i < job.rows; i += 64) {
      F part{};
      for (std::int64_t k = i; k < least(i + 64, job.rows); ++k)
        part = part + load_first_as<E>(job.source, k * job.stride + j, n);
      total = total + part;
    }
    if (job.accumulate) total = load_first(job.out + j, n) + total;
    store_first(job.out + j, total, n);
  }
}

void column_sums(const ColumnSumJob& job) {
  dispatch(job.element, [&]<Element E>() { column_sums_of<E>(job); });
}

// --- measuring the machine ---

template <class Units>
float spin(std::int64_t rounds) {
  F c[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      c[i][j] = F{};
      asm volatile("" : "+x"(c[i][j]));  // as if they differed: equal sums would be computed once
    }
  F a{}, b{};
  for (std::int64_t n = 0; n < rounds; ++n) {
    asm volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) c[i][j] = Units::multiply_add(a, b, c[i][j]);
  }
  F sum{};
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum = sum + c[i][j];
  return reduce_add(sum);
}

float read_sum(const float* p, std::int64_t n) {
  F c[8] = {};
  for (std::int64_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 8 * kLanes; k += 16) __builtin_prefetch(p + i + k + 2048, 0, 2);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) c[k] = c[k] + load(p + i + k * kLanes);
  }
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) c[0] = c[0] + c[k];
  return reduce_add(c[0]);
}

}  // namespace

const GemmKernels& gemm_kernels() {
  static constexpr GemmKernels kTable = {
    .floats = {.pairs = false,
               .rows = kRows,
               .columns = kColumns,
               .group = 1,
               .block = kBlock,
               .slice = kSlice,
               .packed_bytes = kPackedBytes,
               .most_rows = kMostRows,
               .pack_a = pack_floats<kRows>,
               .pack_b = pack_floats<kColumns>,
               .tiles = tiles_any<FloatUnits>,
               .enter = nullptr,
               .leave = nullptr,
               .spin = spin<FloatUnits>,
               .spin_flops = 2.0 * kRows * kColumns},
#if STOA_ISA_LEVEL >= 3
    .pairs = {.pairs = true,
              .rows = kRows,
              .columns = kColumns,
              .group = 1,
              .block = kBlock,
              .slice = kSlice,
              .packed_bytes = kPackedBytes,
              .most_rows = kMostRows,
              .pack_a = pack_units<PairOf, kRows>,
              .pack_b = pack_units<PairOf, kColumns>,
              .tiles = tiles_any<PairUnits>,
              .enter = nullptr,
              .leave = nullptr,
              .spin = spin<PairUnits>,
              .spin_flops = 4.0 * kRows * kColumns},
#else
    .pairs = {},
#endif
    .stream = stream,
    .stream_tokens = kStreamTokens,
    .column_sums = column_sums,
    .read_sum = read_sum,
  };
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
