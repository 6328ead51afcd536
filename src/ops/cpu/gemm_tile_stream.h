// Products of few tokens on tiles of AMX, for gemm_tile_kernels.cc and gemm_emulated_kernels.cc: tiles
// of w are loaded from memory as it is, and only the tokens are packed. A sum has the order of gemm_tiles.h,
// so that a token has the same bits here as among many.
//
// Packed tokens: panels of 16; unit u of token t is at u * 16 + t, so 16 units are a tile. A few tokens are a
// panel of so many columns: rows of a tile then overlap in memory, and what its other columns read and sum is
// not used. Packing sixteen columns for one token would take a tenth of the product's time.
#pragma once

#include "ops/cpu/gemm_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {

constexpr std::int64_t kStreamGroup = 2 * kTileRows;         // rows of w at a time
constexpr std::int64_t kTileWords = kTileRows * kTileUnits;  // of a tile, and of a step of a panel of tokens
constexpr std::int64_t kTileStepBytes = kTileUnits * 4;      // of a row of w
constexpr std::int64_t kTileStepElements = 2 * kTileUnits;
constexpr int kTileStreamTokens = 64;  // of more it is faster to pack w

// Columns of the panels of a job's tokens.
STOA_INLINE std::int64_t token_columns(const StreamJob& job) {
  constexpr std::int64_t kFewColumns = 4;
  return job.x_contiguous && job.tokens <= kFewColumns ? job.tokens : kTileRows;
}

// Few columns: unit u of token t is at u * columns + t. Zeros fill the last tile.
inline void pack_few_tokens(const StreamJob& job, std::uint32_t* panel) {
  const std::int64_t columns = job.tokens, pairs = job.inputs / 2, units = padded_units(job.inputs);
  const auto* x = static_cast<const std::uint16_t*>(job.x);
  std::memset(panel + pairs * columns, 0,
              static_cast<std::size_t>((units - pairs) * columns + kTileUnits) * 4);
  for (std::int64_t t = 0; t < columns; ++t, x += job.x_stride) {
    if (columns == 1) {
      std::memcpy(panel, x, static_cast<std::size_t>(pairs) * 4);
    } else {
      for (std::int64_t u = 0; u < pairs; ++u) std::memcpy(panel + u * columns + t, x + 2 * u, 4);
    }
    if (job.inputs % 2) panel[pairs * columns + t] = x[job.inputs - 1];
  }
}

inline void pack_tile_tokens(const StreamJob& job, std::int64_t first, std::int64_t end,
                             std::uint32_t* panel) {
  if (token_columns(job) < kTileRows) return pack_few_tokens(job, panel);
  pack_padded<kTileRows>({.source = job.x,
                          .stride = job.x_stride,
                          .element = job.element,
                          .rows_contiguous = job.x_contiguous,
                          .first = first,
                          .end = end,
                          .begin = 0,
                          .count = job.inputs,
                          .panel_stride = 0,
                          .panels = panel});
}

// A tile of w: rows from `row`, from element `at` of each. Rows and elements that do not exist are zero.
template <int T, class Tiles>
STOA_INLINE void load_rows(const StreamJob& job, std::int64_t row, std::int64_t at, Tiles& tiles) {
  const auto* w = static_cast<const std::uint16_t*>(job.w) + row * job.w_stride + at;
  if (row + kTileRows <= job.end && at + kTileStepElements <= job.inputs)
    return tiles.template load<T>(w, job.w_stride * 2);
  alignas(64) std::uint16_t copy[kTileRows * kTileStepElements] = {};
  const std::int64_t rows = least(kTileRows, job.end - row);
  const auto bytes = static_cast<std::size_t>(least(kTileStepElements, job.inputs - at)) * 2;
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(copy + i * kTileStepElements, w + i * job.w_stride, bytes);
  tiles.template load<T>(copy, kTileStepBytes);
}

// columns[t] = the rows' sums of token t, of the first `tokens`
STOA_INLINE void turn_sums(const float (&sums)[kTileWords], float (&columns)[kTileWords],
                           std::int64_t tokens) {
  if (tokens > 2) return turn_tile(sums, kTileRows, columns);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < kTileRows; ++i) columns[t * kTileRows + i] = sums[i * kTileRows + t];
}

// Tile T: the sums of 16 rows of w from `row` and 16 tokens from `token`.
template <int T, class Tiles>
STOA_INLINE void finish_tile(const StreamJob& job, std::int64_t row, std::int64_t token, Tiles& tiles) {
  const std::int64_t rows = least(kTileRows, job.end - row), tokens = least(kTileRows, job.tokens - token);
  if (rows <= 0 || tokens <= 0) return;
  alignas(64) float sums[kTileWords], columns[kTileWords];
  tiles.template store<T>(sums, kTileStepBytes);
  if (job.turned)
    return dispatch(
        job.out_element, [&]<Element E>() __attribute__((always_inline)) {
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t t = 0; t < tokens; t += kLanes)
              store_first_as<E>(job.out, (row + i) * job.out_stride + token + t,
                                load(sums + i * kTileRows + t), static_cast<int>(least(kLanes, tokens - t)));
        });
  turn_sums(sums, columns, tokens);
  dispatch(
      job.out_element, [&]<Element E>() __attribute__((always_inline)) {
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t i = 0; i < rows; i += kLanes) {
            const int n = static_cast<int>(least(kLanes, rows - i));
            F x = load(columns + t * kTileRows + i);
            if (job.bias) x = x + load_first(job.bias + row + i, n);
            store_first_as<E>(job.out, (token + t) * job.out_stride + row + i, x, n);
          }
      });
}

// The rows that follow a group in memory, as far as this worker is likely to read them, fetched into the L2
// cache in equal parts by the steps of the group.
class RowFetches {
 public:
  RowFetches(const StreamJob& job, std::int64_t row)
      : next_(static_cast<const char*>(job.w) + (row + kStreamGroup) * job.w_stride * 2),
        end_(static_cast<const char*>(job.w) + job.fetched * job.w_stride * 2) {}
  [[gnu::always_inline]] void step() {
    if (next_ >= end_) return;
#pragma GCC unroll 4
    for (int line = 0; line < kStreamGroup; ++line, next_ += 64) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const char *next_, *end_;
};

// Rows [row, row + 32) of w and up to 32 tokens from `token`. kAcross: more than 16 of them. kFetch: the
// first time that these rows are used.
template <class Tiles, bool kAcross, bool kFetch>
void stream_group(const StreamJob& job, const std::uint32_t* x, std::int64_t row, std::int64_t token) {
  Tiles tiles;
  tiles.template zero<0>();
  tiles.template zero<2>();
  if constexpr (kAcross) {
    tiles.template zero<1>();
    tiles.template zero<3>();
  }
  RowFetches fetches(job, row);
  const std::int64_t panel = padded_units(job.inputs) * kTileRows, columns = token_columns(job);
  const std::uint32_t* b = x + token / kTileRows * panel;
  const bool down = row + kTileRows < job.end;
  for (std::int64_t at = 0; at < job.inputs; at += kTileStepElements, b += columns * kTileUnits) {
    load_rows<4>(job, row, at, tiles);
    tiles.template load<6>(b, columns * 4);
    tiles.template multiply_add<0, 4, 6>();
    if constexpr (kAcross) {
      tiles.template load<7>(b + panel, kTileStepBytes);
      tiles.template multiply_add<1, 4, 7>();
    }
    if (down) {
      load_rows<5>(job, row + kTileRows, at, tiles);
      tiles.template multiply_add<2, 5, 6>();
      if constexpr (kAcross) tiles.template multiply_add<3, 5, 7>();
    }
    if constexpr (kFetch) fetches.step();
  }
  finish_tile<0>(job, row, token, tiles);
  if constexpr (kAcross) finish_tile<1>(job, row, token + kTileRows, tiles);
  if (!down) return;
  finish_tile<2>(job, row + kTileRows, token, tiles);
  if constexpr (kAcross) finish_tile<3>(job, row + kTileRows, token + kTileRows, tiles);
}

template <class Tiles>
void stream_tiles(const StreamJob& job, const std::uint32_t* x) {
  for (std::int64_t row = job.first; row < job.end; row += kStreamGroup)
    for (std::int64_t token = 0; token < job.tokens; token += 2 * kTileRows) {
      const bool across = job.tokens - token > kTileRows;
      if (token > 0)
        across ? stream_group<Tiles, true, false>(job, x, row, token)
               : stream_group<Tiles, false, false>(job, x, row, token);
      else
        across ? stream_group<Tiles, true, true>(job, x, row, token)
               : stream_group<Tiles, false, true>(job, x, row, token);
    }
}

}  // namespace stoa::ops::cpu::STOA_ISA
