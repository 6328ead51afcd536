// The table of bf16 products on tiles, which are those of AMX or emulated.
#pragma once

#include "ops/cpu/gemm_tile_stream.h"
#include "ops/cpu/gemm_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {

// `enter`, `leave`: the tiles' set-up; `spin`: the measurement. Null where there is none.
template <class Tiles>
constexpr ProductKernels tile_table(void (*enter)(), void (*leave)(), float (*spin)(std::int64_t)) {
  return {.pairs = true,
          .rows = kPanel,
          .columns = kPanel,
          .group = kTileUnits,
          .block = kTileBlock,
          .slice = kTileSlice,
          .packed_bytes = kTilePackedBytes,
          .most_rows = kTileMostRows,
          .reads_rows = true,
          .pack_a = pack_tile_rows,
          .pack_b = pack_tile_columns,
          .tiles = tile_products<Tiles>,
          .stream = stream_tiles<Tiles>,
          .pack_tokens = pack_tile_tokens,
          .panel_tokens = kTileRows,
          .stream_rows = kStreamGroup,
          .stream_tokens = kTileStreamTokens,
          .turns = true,
          .enter = enter,
          .leave = leave,
          .spin = spin,
          .spin_flops = 4 * 2.0 * 16 * 16 * 32};
}

}  // namespace stoa::ops::cpu::STOA_ISA
