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
constexpr std::int64_t kStepUnits = kTileUnits * kPanel;  // of one step of the reduction, in either operand
// A block of B and the panel of A that meets it lie in the L1 cache of 48 KiB together: 20 KiB each.
constexpr int kTileBlock = 160;
constexpr std::int64_t kTilePackedBytes =
    1 << 20;  // half of a 2 MiB L2 cache: every processor with tiles has it
constexpr std::int64_t kTileMostRows = 512;

STOA_INLINE std::int64_t padded_units(std::int64_t elements) {
  const std::int64_t units = (elements + 1) / 2;
  return (units + kTileUnits - 1) / kTileUnits * kTileUnits;
}

// --- packing ---

inline void pack_tile_columns(const PackJob& job) {
  pack_units<PairOf, kPanel>(job);
  const std::int64_t units = (job.count + 1) / 2, padding = padded_units(job.count) - units;
  if (padding == 0) return;
  std::uint32_t* panel = job.panels;
  for (std::int64_t m = job.first; m < job.end; m += kPanel, panel += job.panel_stride)
    std::memset(panel + units * kPanel, 0, static_cast<std::size_t>(padding * kPanel) * 4);
}

// Sixteen units from element `at` of a memory row that runs along the reduction, of which `elements` exist.
STOA_INLINE void copy_tile_row(const PackJob& job, std::int64_t at, std::int64_t elements,
                               std::uint32_t* to) {
  for (int i = 0; i < kTileUnits; i += kLanes, elements -= 2 * kLanes) {
    const U x = elements > 0 ? PairOf::load_row(job.source, at + 2 * i, elements) : U{};
    std::memcpy(to + i, &x, sizeof(x));
  }
}

// Row after row, as memory has them.
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
STOA_INLINE void finish_tiles(const TileJob& job) {
  const StoreJob& store = *job.store;
  for (std::int64_t i = 0; i < job.rows; ++i)
    for (std::int64_t j = 0; j < job.columns; j += kLanes) {
      const std::int64_t at = i * store.out_stride + j;
      const int n = static_cast<int>(least(kLanes, job.columns - j));
      F x = load(job.sums + i * job.sums_stride + j);
      if (n == kLanes) {
        if (store.bias) x = x + load(store.bias + j);
        if (store.accumulate) x = load_as<E>(store.out, at) + x;
        store_as<E>(store.out, at, x);
      } else {
        if (store.bias) x = x + load_first(store.bias + j, n);
        if (store.accumulate) x = load_first_as<E>(store.out, at, n) + x;
        store_first_as<E>(store.out, at, x, n);
      }
    }
}

// kDown, kAcross: more than 16 rows, more than 16 columns.
template <class Tiles, bool kDown, bool kAcross>
void multiply_tiles(const TileJob& job) {
  Tiles tiles;
  float* const sums = job.sums;
  float* const below = sums + kTileRows * job.sums_stride;
  const std::int64_t stride = job.sums_stride * 4;
  if (job.first) {
    tiles.template zero<0>();
    if constexpr (kAcross) tiles.template zero<1>();
    if constexpr (kDown) tiles.template zero<2>();
    if constexpr (kDown && kAcross) tiles.template zero<3>();
  } else {
    tiles.template load<0>(sums, stride);
    if constexpr (kAcross) tiles.template load<1>(sums + 16, stride);
    if constexpr (kDown) tiles.template load<2>(below, stride);
    if constexpr (kDown && kAcross) tiles.template load<3>(below + 16, stride);
  }
  // Lines of the block of B that follows, fetched per step: a step of it has 32.
  const std::int64_t steps = job.units / kTileUnits;
  const std::int64_t lines = job.parts > 0 ? (32 + job.parts - 1) / job.parts : 0;
  const std::uint32_t* next = job.b + job.units * kPanel + job.part * steps * lines * 16;
  const std::uint32_t *a = job.a, *b = job.b;
  for (std::int64_t s = 0; s < steps; ++s, a += kStepUnits, b += kStepUnits) {
    tiles.template load<4>(a, 64);
    tiles.template load<6>(b, 128);
    tiles.template multiply_add<0, 4, 6>();
    if constexpr (kAcross) {
      tiles.template load<7>(b + 16, 128);
      tiles.template multiply_add<1, 4, 7>();
    }
    if constexpr (kDown) {
      tiles.template load<5>(a + kTileRows * kTileUnits, 64);
      tiles.template multiply_add<2, 5, 6>();
      if constexpr (kAcross) tiles.template multiply_add<3, 5, 7>();
    }
    for (std::int64_t line = 0; line < lines; ++line, next += 16) __builtin_prefetch(next, 0, 2);
  }
  tiles.template store<0>(sums, stride);
  if constexpr (kAcross) tiles.template store<1>(sums + 16, stride);
  if constexpr (kDown) tiles.template store<2>(below, stride);
  if constexpr (kDown && kAcross) tiles.template store<3>(below + 16, stride);
  if (job.store)
    dispatch(
        job.store->element, [&]<Element E>() __attribute__((always_inline)) { finish_tiles<E>(job); });
}

template <class Tiles>
void tile_product(const TileJob& job) {
  const bool down = job.rows > kTileRows, across = job.columns > 16;
  if (down) return across ? multiply_tiles<Tiles, true, true>(job) : multiply_tiles<Tiles, true, false>(job);
  return across ? multiply_tiles<Tiles, false, true>(job) : multiply_tiles<Tiles, false, false>(job);
}

// The table of these products, but for the tiles' set-up and the measurement.
constexpr ProductKernels tile_products_with(void (*tile)(const TileJob&), void (*enter)(), void (*leave)(),
                                            float (*spin)(std::int64_t)) {
  return {.pairs = true,
          .rows = kPanel,
          .columns = kPanel,
          .group = kTileUnits,
          .block = kTileBlock,
          .packed_bytes = kTilePackedBytes,
          .most_rows = kTileMostRows,
          .pack_a = pack_tile_rows,
          .pack_b = pack_tile_columns,
          .tile = tile,
          .enter = enter,
          .leave = leave,
          .spin = spin,
          .spin_flops = 4 * 2.0 * 16 * 16 * 32};
}

}  // namespace stoa::ops::cpu::STOA_ISA
