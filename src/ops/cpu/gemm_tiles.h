// bf16 products on tiles of 16 rows of 64 bytes, for gemm_tile_kernels.cc (AMX) and gemm_emulated_kernels.cc.
//
// Two by two tiles hold sums (0 … 3), so that each of the two tiles of A (4, 5) and of B (6, 7) is used
// twice: one load per product, where a product takes as long as two loads from the L1 cache. All tiles are
// whole: panels are padded with zeros, and rows and columns that do not exist are left out of the store.
//
// A panel of B holds 32 columns: unit u of column j at u * 32 + j, so 16 units of 16 columns are a tile with
// rows 128 bytes apart. A panel of A holds 32 rows as tiles: unit u of row i is at (u / 16) * 512 + i * 16 +
// u % 16.
#pragma once

#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/real_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {

constexpr std::int64_t kTileUnits = 16, kTileRows = 16, kPanel = 32;
constexpr std::int64_t kSums = kPanel * kPanel;           // of a panel of A and one of B
constexpr std::int64_t kStepUnits = kTileUnits * kPanel;  // of one step of the reduction, in either operand
// A block of B fills half of the L1 cache of 48 KiB; A streams through the rest.
constexpr int kTileBlock = 192;
// Ten panels of A of this depth fit into kTilePackedBytes: with fewer, B would be reloaded too often.
constexpr int kTileSlice = 768;
constexpr std::int64_t kTilePackedBytes =
    1 << 20;  // half of a 2 MiB L2 cache: every processor with tiles has it
constexpr std::int64_t kTileMostRows = 512;

STOA_INLINE std::int64_t padded_units(std::int64_t elements) {
  const std::int64_t units = (elements + 1) / 2;
  return (units + kTileUnits - 1) / kTileUnits * kTileUnits;
}

// --- packing ---

// Panels of W columns, whose last tile is filled up with zeros.
template <int W>
void pack_padded(const PackJob& job) {
  pack_units<PairOf, W>(job);
  const std::int64_t units = (job.count + 1) / 2, padding = padded_units(job.count) - units;
  if (padding == 0) return;
  std::uint32_t* panel = job.panels;
  for (std::int64_t m = job.first; m < job.end; m += W, panel += job.panel_stride)
    std::memset(panel + units * W, 0, static_cast<std::size_t>(padding * W) * 4);
}

inline void pack_tile_columns(const PackJob& job) { pack_padded<kPanel>(job); }

// Copies sixteen units from element `at` of a memory row along the reduction that has `elements` elements.
STOA_INLINE void copy_tile_row(const PackJob& job, std::int64_t at, std::int64_t elements,
                               std::uint32_t* to) {
  for (int i = 0; i < kTileUnits; i += kLanes, elements -= 2 * kLanes) {
    const U x = elements > 0 ? PairOf::load_row(job.source, at + 2 * i, elements) : U{};
    std::memcpy(to + i, &x, sizeof(x));
  }
}

// Row after row, in the order of memory.
inline void pack_tile_rows_along(const PackJob& job) {
  std::uint32_t* panel = job.panels;
  for (std::int64_t m = job.first; m < job.end; m += kPanel, panel += job.panel_stride)
    for (std::int64_t i = 0; i < kPanel; ++i) {
      std::uint32_t* to = panel + i * kTileUnits;
      const bool exists = m + i < job.end;
      const std::int64_t at = (m + i) * job.stride + job.begin;
      for (std::int64_t k = 0; k < job.count; k += 2 * kTileUnits, to += kStepUnits) {
        if (exists) __builtin_prefetch(static_cast<const std::uint16_t*>(job.source) + at + k + kAhead, 0, 2);
        copy_tile_row(job, at + k, exists ? job.count - k : 0, to);
      }
    }
}

// Sixteen rows of A from `row`, of which `rows` exist; memory holds [reduction, rows] and the step begins at
// reduction index `k`.
STOA_INLINE void pack_tile_across(const PackJob& job, std::int64_t row, std::int64_t rows, std::int64_t k,
                                  std::uint32_t* to) {
#if STOA_ISA_LEVEL >= 2
  U r[16];
#pragma GCC unroll 16
  for (int u = 0; u < 16; ++u) {
    const std::int64_t at = k + 2 * u;
    const bool exists = at < job.count && rows > 0;
    r[u] = exists ? PairOf::load_columns(job.source, (job.begin + at) * job.stride + row, least(rows, 16),
                                         at + 1 < job.count ? job.stride : 0)
                  : U{};
  }
  transpose16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(to + 16 * i, &r[i], 64);
#else
  const auto* source = static_cast<const std::uint16_t*>(job.source) + job.begin * job.stride + row;
  for (int i = 0; i < 16; ++i)
    for (int u = 0; u < 16; ++u) {
      const std::int64_t at = k + 2 * u;
      std::uint32_t x = 0;
      if (i < rows && at < job.count) x = source[at * job.stride + i];
      if (i < rows && at + 1 < job.count)
        x |= static_cast<std::uint32_t>(source[(at + 1) * job.stride + i]) << 16;
      to[16 * i + u] = x;
    }
#endif
}

// A step of all panels after the other, so that memory is read in long runs.
inline void pack_tile_rows_across(const PackJob& job) {
  for (std::int64_t k = 0; k < job.count; k += 2 * kTileUnits) {
    const std::int64_t later = least(job.count, k + 4 * kTileUnits);
    for (std::int64_t r = k + 2 * kTileUnits; r < later; ++r) prefetch_run<PairOf>(job, job.begin + r);
    std::uint32_t* panel = job.panels + k / 2 * kPanel;
    for (std::int64_t m = job.first; m < job.end; m += kPanel, panel += job.panel_stride)
      for (std::int64_t half = 0; half < kPanel; half += kTileRows)
        pack_tile_across(job, m + half, job.end - m - half, k, panel + half * kTileUnits);
  }
}

inline void pack_tile_rows(const PackJob& job) {
  return job.rows_contiguous ? pack_tile_rows_along(job) : pack_tile_rows_across(job);
}

// --- products ---

template <Element E>
STOA_INLINE void stream_as(void* p, std::int64_t i, F x) {
#if STOA_ISA_LEVEL >= 2
  if constexpr (E == Element::kF32) {
    _mm512_stream_ps(static_cast<float*>(p) + i, reinterpret_cast<__m512>(x));
  } else {
    const H half = E == Element::kBF16 ? to_bf16(x) : to_f16(x);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(static_cast<std::uint16_t*>(p) + i),
                        reinterpret_cast<__m256i>(half));
  }
#else
  store_as<E>(p, i, x);
#endif
}

// Writes rows [begin, end) of the sums to the output.
template <Element E>
STOA_INLINE void finish_rows(const TileJob& job, std::int64_t begin, std::int64_t end) {
  const StoreJob& store = *job.store;
  const bool stream = store.past_caches && job.columns == kPanel;
  for (std::int64_t i = begin; i < end; ++i)
    for (std::int64_t j = 0; j < job.columns; j += kLanes) {
      const std::int64_t at = i * store.out_stride + j;
      const int n = static_cast<int>(least(kLanes, job.columns - j));
      F x = load(job.sums + i * kPanel + j);
      if (n == kLanes) {
        if (store.bias) x = x + load(store.bias + j);
        if (store.accumulate) x = load_as<E>(store.out, at) + x;
        stream ? stream_as<E>(store.out, at, x) : store_as<E>(store.out, at, x);
      } else {
        if (store.bias) x = x + load_first(store.bias + j, n);
        if (store.accumulate) x = load_first_as<E>(store.out, at, n) + x;
        store_first_as<E>(store.out, at, x, n);
      }
    }
}

// What the steps of one panel fetch ahead into the L2 cache, in equal parts: lines of the block of B that
// follows this one in memory (a step of it has 32), and the rows of the output that this panel will write
// through the caches.
class TileFetches {
 public:
  TileFetches(const TileJob& job, std::int64_t panel)
      : job_(job), steps_(job.units / kTileUnits), row_(panel * kPanel) {
    const std::int64_t panels = (job.rows + kPanel - 1) / kPanel;
    lines_ = job.next_b ? (32 + panels - 1) / panels : 0;
    next_ = job.b + job.units * kPanel + panel * steps_ * lines_ * 16;
    rows_ = job.store && !job.store->past_caches ? (kPanel + steps_ - 1) / steps_ : 0;
    end_ = least(row_ + kPanel, job.rows);
    bytes_ = job.columns * (job.store && job.store->element == Element::kF32 ? 4 : 2);
  }
  [[gnu::always_inline]] void step() {
    for (std::int64_t line = 0; line < lines_; ++line, next_ += 16) __builtin_prefetch(next_, 0, 2);
    for (const std::int64_t end = least(row_ + rows_, end_); row_ < end; ++row_) {
      const auto* out = static_cast<const char*>(output_row(*job_.store, row_));
      for (std::int64_t b = 0; b < bytes_; b += 64) __builtin_prefetch(out + b, 0, 2);
    }
  }

 private:
  const TileJob& job_;
  std::int64_t steps_, lines_, rows_, row_, end_, bytes_;
  const std::uint32_t* next_;
};

// Tile T of a panel's sums.
template <int T>
STOA_INLINE float* sums_of(const TileJob& job, std::int64_t panel) {
  return job.sums + panel * kSums + T / 2 * kTileRows * kPanel + T % 2 * 16;
}

// Stores tile T's sums of the previous panel, if there is one, and loads those of `panel`.
template <int T, class Tiles>
STOA_INLINE void turn_to(const TileJob& job, std::int64_t panel, bool before, Tiles& tiles) {
  if (before) tiles.template store<T>(sums_of<T>(job, panel - 1), kPanel * 4);
  if (job.first)
    tiles.template zero<T>();
  else
    tiles.template load<T>(sums_of<T>(job, panel), kPanel * 4);
}

// Panels [begin, end) of A. kDown, kAcross: more than 16 rows, more than 16 columns.
//
// To store the sums of a panel and load those of the next takes as long as several products: it is done
// between the products of the next panel's first step, each tile as soon as the step needs it. From there the
// sums go to the output a few rows per step.
template <class Tiles, bool kDown, bool kAcross>
void multiply_panels(const TileJob& job, std::int64_t begin, std::int64_t end) {
  Tiles tiles;
  const std::int64_t steps = job.units / kTileUnits;
  const std::int64_t a_row = job.a_row ? job.a_row : kTileUnits, a_step = job.a_row ? kTileUnits : kStepUnits;
  const std::int64_t rows_per_step = steps > 1 ? (kPanel + steps - 2) / (steps - 1) : kPanel;
  const auto finish = [&](std::int64_t from, std::int64_t to) __attribute__((always_inline)) {
    if (from < to)
      dispatch(
          job.store->element, [&]<Element E>()
                                  __attribute__((always_inline)) { finish_rows<E>(job, from, to); });
  };
  for (std::int64_t panel = begin; panel < end; ++panel) {
    TileFetches fetches(job, panel);
    const bool before = panel > begin;
    const std::int64_t finished = panel * kPanel;
    std::int64_t row = before && job.store ? finished - kPanel : finished;
    const std::uint32_t *a = job.a + panel * job.a_stride, *b = job.b;
    const auto step = [&]<bool kFirst>() __attribute__((always_inline)) {
      tiles.template load_once<4>(a, a_row * 4);
      tiles.template load<6>(b, 128);
      if constexpr (kFirst) turn_to<0>(job, panel, before, tiles);
      tiles.template multiply_add<0, 4, 6>();
      if constexpr (kAcross) {
        tiles.template load<7>(b + 16, 128);
        if constexpr (kFirst) turn_to<1>(job, panel, before, tiles);
        tiles.template multiply_add<1, 4, 7>();
      }
      if constexpr (kDown) {
        tiles.template load_once<5>(a + kTileRows * a_row, a_row * 4);
        if constexpr (kFirst) turn_to<2>(job, panel, before, tiles);
        tiles.template multiply_add<2, 5, 6>();
        if constexpr (kAcross) {
          if constexpr (kFirst) turn_to<3>(job, panel, before, tiles);
          tiles.template multiply_add<3, 5, 7>();
        }
      }
      fetches.step();
      a += a_step;
      b += kStepUnits;
    };
    step.template operator()<true>();
    for (std::int64_t s = 1; s < steps; ++s, row += rows_per_step) {
      step.template operator()<false>();
      finish(row, least(row + rows_per_step, finished));
    }
    finish(row, finished);
  }
  const std::int64_t last = end - 1;
  tiles.template store<0>(sums_of<0>(job, last), kPanel * 4);
  if constexpr (kAcross) tiles.template store<1>(sums_of<1>(job, last), kPanel * 4);
  if constexpr (kDown) tiles.template store<2>(sums_of<2>(job, last), kPanel * 4);
  if constexpr (kDown && kAcross) tiles.template store<3>(sums_of<3>(job, last), kPanel * 4);
  if (job.store) finish(last * kPanel, least(end * kPanel, job.rows));
}

// The sums of an empty reduction.
STOA_INLINE void clear_sums(const TileJob& job) {
  const std::int64_t panels = (job.rows + kPanel - 1) / kPanel;
  std::memset(job.sums, 0, static_cast<std::size_t>(panels * kSums) * sizeof(float));
}

STOA_INLINE void finish_empty(const TileJob& job) {
  clear_sums(job);
  dispatch(
      job.store->element, [&]<Element E>()
                              __attribute__((always_inline)) { finish_rows<E>(job, 0, job.rows); });
}

// columns[j]: the sums of column j of a tile, whose rows are `stride` apart.
STOA_INLINE void turn_tile(const float* sums, std::int64_t stride, float (&columns)[kTileRows * 16]) {
#if STOA_ISA_LEVEL >= 2
  U r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(&r[i], sums + i * stride, 64);
  transpose16(r);
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) std::memcpy(columns + 16 * j, &r[j], 64);
#else
  for (int j = 0; j < 16; ++j)
    for (int i = 0; i < 16; ++i) columns[16 * j + i] = sums[i * stride + j];
#endif
}

// Writes all sums to an output whose rows are the columns here.
template <Element E>
STOA_INLINE void finish_turned(const TileJob& job) {
  const StoreJob& store = *job.store;
  alignas(64) float columns[kTileRows * 16];
  for (std::int64_t row = 0; row < job.rows; row += kTileRows)
    for (std::int64_t column = 0; column < job.columns; column += 16) {
      turn_tile(job.sums + row * kPanel + column, kPanel, columns);
      const std::int64_t rows = least(kTileRows, job.rows - row);
      for (std::int64_t j = 0; j < least(16, job.columns - column); ++j)
        for (std::int64_t i = 0; i < rows; i += kLanes) {
          const int n = static_cast<int>(least(kLanes, rows - i));
          const std::int64_t at = (column + j) * store.out_stride + row + i;
          F x = load(columns + 16 * j + i);
          if (store.accumulate) x = load_first_as<E>(store.out, at, n) + x;
          store_first_as<E>(store.out, at, x, n);
        }
    }
}

template <class Tiles>
void tile_products(const TileJob& job) {
  if (job.store && job.store->turned) {
    TileJob sums = job;
    sums.store = nullptr;
    job.units == 0 ? clear_sums(job) : tile_products<Tiles>(sums);
    return dispatch(
        job.store->element, [&]<Element E>() __attribute__((always_inline)) { finish_turned<E>(job); });
  }
  if (job.units == 0) return finish_empty(job);
  const bool across = job.columns > 16;
  const std::int64_t panels = (job.rows + kPanel - 1) / kPanel;
  const std::int64_t down = panels - (job.rows - (panels - 1) * kPanel <= kTileRows);
  if (down > 0)
    across ? multiply_panels<Tiles, true, true>(job, 0, down)
           : multiply_panels<Tiles, true, false>(job, 0, down);
  if (down < panels)
    across ? multiply_panels<Tiles, false, true>(job, down, panels)
           : multiply_panels<Tiles, false, false>(job, down, panels);
}

}  // namespace stoa::ops::cpu::STOA_ISA
