#include "ops/cpu/gemm_kernels.h"

#include "ops/cpu/simd.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

#if STOA_ISA_LEVEL >= 2
constexpr int kRows = 8, kVectors = 3, kBlock = 128;  // 24 of 32 registers hold sums
#elif STOA_ISA_LEVEL == 1
constexpr int kRows = 4, kVectors = 3, kBlock = 256;  // 12 of 16
#else
constexpr int kRows = 4, kVectors = 2,
              kBlock = 256;  // 8 of 16: products need a register where there is no fma
#endif
constexpr int kColumns = kVectors * kLanes;
constexpr bool kPairs = STOA_ISA_LEVEL >= 3;

// --- elements as vectors of floats ---

STOA_INLINE F load_as(const void* p, std::int64_t i, Element e) {
  switch (e) {
    case Element::kF32:
      return load(static_cast<const float*>(p) + i);
    case Element::kBF16:
      return from_bf16(load_half(static_cast<const std::uint16_t*>(p) + i));
    default:
      return from_f16(load_half(static_cast<const std::uint16_t*>(p) + i));
  }
}
STOA_INLINE F load_first_as(const void* p, std::int64_t i, int n, Element e) {
  switch (e) {
    case Element::kF32:
      return load_first(static_cast<const float*>(p) + i, n);
    case Element::kBF16:
      return from_bf16(load_half_first(static_cast<const std::uint16_t*>(p) + i, n));
    default:
      return from_f16(load_half_first(static_cast<const std::uint16_t*>(p) + i, n));
  }
}
STOA_INLINE void store_first_as(void* p, std::int64_t i, F x, int n, Element e) {
  switch (e) {
    case Element::kF32:
      return store_first(static_cast<float*>(p) + i, x, n);
    case Element::kBF16:
      return store_half_first(static_cast<std::uint16_t*>(p) + i, to_bf16(x), n);
    default:
      return store_half_first(static_cast<std::uint16_t*>(p) + i, to_f16(x), n);
  }
}

STOA_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// --- packing ---

// One panel of floats or pairs, any layout: `rows` <= W rows from row `first`.
template <int W>
void pack_panel(const PackJob& job, std::int64_t first, std::int64_t rows, std::uint32_t* panel) {
  const auto* s16 = static_cast<const std::uint16_t*>(job.source);
  if (job.pairs) {
    const std::int64_t units = (job.count + 1) / 2;
    for (std::int64_t u = 0; u < units; ++u) {
      const std::int64_t r = job.begin + 2 * u;
      const bool second = 2 * u + 1 < job.count;
      for (std::int64_t i = 0; i < W; ++i) {
        std::uint32_t unit = 0;
        if (i < rows) {
          const std::int64_t m = first + i;
          const std::int64_t at = job.rows_contiguous ? m * job.stride + r : r * job.stride + m;
          unit = s16[at];
          if (second)
            unit |= static_cast<std::uint32_t>(s16[at + (job.rows_contiguous ? 1 : job.stride)]) << 16;
        }
        panel[u * W + i] = unit;
      }
    }
    return;
  }
  auto* out = reinterpret_cast<float*>(panel);
  if (!job.rows_contiguous) {
    for (std::int64_t u = 0; u < job.count; ++u) {
      const std::int64_t at = (job.begin + u) * job.stride + first;
      for (int i = 0; i < W; i += kLanes) {
        const int n = static_cast<int>(rows - i >= kLanes ? kLanes : rows > i ? rows - i : 0);
        const F x = load_first_as(job.source, at + i, n, job.element);
        store_first(out + u * W + i, x, W - i < kLanes ? W - i : kLanes);
      }
    }
    return;
  }
  for (std::int64_t u = 0; u < job.count; u += kLanes) {
    const int n = static_cast<int>(least(kLanes, job.count - u));
    for (std::int64_t i = 0; i < W; ++i) {
      float lanes[kLanes] = {};
      if (i < rows)
        store(lanes, load_first_as(job.source, (first + i) * job.stride + job.begin + u, n, job.element));
      for (int k = 0; k < n; ++k) out[(u + k) * W + i] = lanes[k];
    }
  }
}

template <int W>
void pack(const PackJob& job) {
  std::uint32_t* panel = job.panels;
  for (std::int64_t m = job.first; m < job.end; m += W, panel += job.panel_stride)
    pack_panel<W>(job, m, least(W, job.end - m), panel);
}

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

template <class Units, int V>
STOA_INLINE void tile(std::int64_t units, const std::uint32_t* a, const std::uint32_t* b, float* sums,
                      std::int64_t stride, bool first) {
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
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(sums + i * stride + j * kLanes, c[i][j]);
}

template <class Units>
void tile_any(std::int64_t units, const std::uint32_t* a, const std::uint32_t* b, float* sums,
              std::int64_t stride, int vectors, bool first) {
  if (vectors >= kVectors) return tile<Units, kVectors>(units, a, b, sums, stride, first);
  if constexpr (kVectors > 2)
    if (vectors == 2) return tile<Units, 2>(units, a, b, sums, stride, first);
  tile<Units, 1>(units, a, b, sums, stride, first);
}

void store_sums(const StoreJob& job) {
  for (std::int64_t i = 0; i < job.rows; ++i) {
    const float* sums = job.sums + i * job.sums_stride;
    for (std::int64_t j = 0; j < job.columns; j += kLanes) {
      const int n = static_cast<int>(least(kLanes, job.columns - j));
      F x = load_first(sums + j, n);
      if (job.bias) x = x + load_first(job.bias + j, n);
      if (job.accumulate) x = load_first_as(job.out, i * job.out_stride + j, n, job.element) + x;
      store_first_as(job.out, i * job.out_stride + j, x, n, job.element);
    }
  }
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
    for (int t = 0; t < T; ++t) x[t] = load_as(job.x, (t0 + t) * job.x_stride + k, E);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F w = load_as(job.w, (n0 + r) * job.w_stride + k, E);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) c[r][t] = fma(w, x[t], c[r][t]);
    }
  }
  if (k < job.inputs) {
    const int n = static_cast<int>(job.inputs - k);
    for (int r = 0; r < R; ++r) {
      const F w = load_first_as(job.w, (n0 + r) * job.w_stride + k, n, E);
      for (int t = 0; t < T; ++t)
        c[r][t] = fma(w, load_first_as(job.x, (t0 + t) * job.x_stride + k, n, E), c[r][t]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int t = 0; t < T; ++t) {
      const float sum = reduce_add(c[r][t]) + (job.bias ? job.bias[n0 + r] : 0.0f);
      store_first_as(job.out, (t0 + t) * job.out_stride + n0 + r, splat(sum), 1, job.out_element);
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
  switch (job.element) {
    case Element::kF32:
      return stream_element<Element::kF32>(job);
    case Element::kBF16:
      return stream_element<Element::kBF16>(job);
    case Element::kF16:
      return stream_element<Element::kF16>(job);
  }
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
        part = part + load_first_as(job.source, k * job.stride + j, n, E);
      total = total + part;
    }
    if (job.accumulate) total = load_first(job.out + j, n) + total;
    store_first(job.out + j, total, n);
  }
}

void column_sums(const ColumnSumJob& job) {
  switch (job.element) {
    case Element::kF32:
      return column_sums_of<Element::kF32>(job);
    case Element::kBF16:
      return column_sums_of<Element::kBF16>(job);
    case Element::kF16:
      return column_sums_of<Element::kF16>(job);
  }
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
    .store = store_sums,
    .stream = stream,
    .stream_tokens = kStreamTokens,
    .column_sums = column_sums,
  };
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
