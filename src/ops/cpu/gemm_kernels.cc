#include "ops/cpu/gemm_kernels.h"

#include "ops/cpu/gemm_pack.h"
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
constexpr int kColumns = kVectors * kLanes;
constexpr bool kPairs = STOA_ISA_LEVEL >= 3;

// --- register tiles ---

struct FloatUnits {
  static constexpr const char* kName = "f32";
  STOA_INLINE F multiply_add(const std::uint32_t* a, F b, F c) {
    float x;
    std::memcpy(&x, a, 4);
    return fma(splat(x), b, c);
  }
};
#if STOA_ISA_LEVEL >= 3
struct PairUnits {
  STOA_INLINE F multiply_add(const std::uint32_t* a, F b, F c) {
    return reinterpret_cast<F>(_mm512_dpbf16_ps(
        reinterpret_cast<__m512>(c), reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(*a))),
        reinterpret_cast<__m512bh>(b)));
  }
};
#endif

template <Element E, int V>
STOA_INLINE void finish(const F (&c)[kRows][V], const StoreJob& job) {
  const int tail = static_cast<int>(job.columns - (V - 1) * kLanes);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (i >= job.rows) break;
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
STOA_INLINE void tile(std::int64_t units, const std::uint32_t* a, const std::uint32_t* b, float* sums,
                      std::int64_t stride, bool first, const StoreJob* job) {
  F c[kRows][V];
  if (first) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = F{};
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = load(sums + i * stride + j * kLanes);
  }
  for (std::int64_t u = 0; u < units; ++u, a += kRows, b += kColumns) {
    F y[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) y[j] = load(reinterpret_cast<const float*>(b) + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) c[i][j] = Units::multiply_add(a + i, y[j], c[i][j]);
  }
  if (job) return dispatch(job->element, [&]<Element E>() __attribute__((always_inline)) { finish<E, V>(c, *job); });
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(sums + i * stride + j * kLanes, c[i][j]);
}

template <class Units>
void tile_any(std::int64_t units, const std::uint32_t* a, const std::uint32_t* b, float* sums, std::int64_t stride,
              int vectors, bool first, const StoreJob* job) {
  if (vectors >= kVectors) return tile<Units, kVectors>(units, a, b, sums, stride, first, job);
  if constexpr (kVectors > 2)
    if (vectors == 2) return tile<Units, 2>(units, a, b, sums, stride, first, job);
  tile<Units, 1>(units, a, b, sums, stride, first, job);
}

// --- few tokens ---

constexpr int kStreamTokens = 8;

template <int R, int T, Element E>
STOA_INLINE void stream_rows(const StreamJob& job, std::int64_t n0, std::int64_t t0) {
  F c[R][T];
  for (int r = 0; r < R; ++r)
    for (int t = 0; t < T; ++t) c[r][t] = F{};
  std::int64_t k = 0;
  for (; k + kLanes <= job.inputs; k += kLanes) {
    F x[T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) x[t] = load_as<E>(job.x, (t0 + t) * job.x_stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F w = load_as<E>(job.w, (n0 + r) * job.w_stride + k);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) c[r][t] = fma(w, x[t], c[r][t]);
    }
  }
  if (k < job.inputs) {
    const int n = static_cast<int>(job.inputs - k);
    for (int r = 0; r < R; ++r) {
      const F w = load_first_as<E>(job.w, (n0 + r) * job.w_stride + k, n);
      for (int t = 0; t < T; ++t)
        c[r][t] = fma(w, load_first_as<E>(job.x, (t0 + t) * job.x_stride + k, n), c[r][t]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int t = 0; t < T; ++t) {
      const float sum = reduce_add(c[r][t]) + (job.bias ? job.bias[n0 + r] : 0.0f);
      dispatch(job.out_element, [&]<Element O>() { store_first_as<O>(job.out, (t0 + t) * job.out_stride + n0 + r, splat(sum), 1); });
    }
}

template <int T, Element E>
void stream_tokens(const StreamJob& job, std::int64_t t0) {
  constexpr int kR = T >= 3 ? 2 : 4;
  std::int64_t n = job.first;
  for (; n + kR <= job.end; n += kR) stream_rows<kR, T, E>(job, n, t0);
  for (; n < job.end; ++n) stream_rows<1, T, E>(job, n, t0);
}

template <Element E>
void stream_element(const StreamJob& job) {
  std::int64_t t = 0;
  for (; t + 4 <= job.tokens; t += 4) stream_tokens<4, E>(job, t);
  for (; t + 2 <= job.tokens; t += 2) stream_tokens<2, E>(job, t);
  for (; t < job.tokens; ++t) stream_tokens<1, E>(job, t);
}

void stream(const StreamJob& job) {
  dispatch(job.element, [&]<Element E>() { stream_element<E>(job); });
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

}  // namespace

const GemmKernels& gemm_kernels() {
  static constexpr GemmKernels kTable = {
    .rows = kRows,
    .columns = kColumns,
    .vector = kLanes,
    .block = kBlock,
    .pairs = kPairs,
    .pack_a = pack<kRows>,
    .pack_b = pack<kColumns>,
    .tile_f32 = tile_any<FloatUnits>,
#if STOA_ISA_LEVEL >= 3
    .tile_pairs = tile_any<PairUnits>,
#else
    .tile_pairs = nullptr,
#endif
    .stream = stream,
    .stream_tokens = kStreamTokens,
    .column_sums = column_sums,
  };
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
