// bf16 products on the tiles of AMX.
#include "ops/cpu/gemm_kernels.h"

#if STOA_ISA_LEVEL >= 3

#include "ops/cpu/gemm_tile_table.h"
#include "ops/cpu/real_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// Other threads see what went past the caches before they see that the task is done.
void leave() {
  leave_tiles();
  _mm_sfence();
}

float spin(std::int64_t rounds) {
  RealTiles tiles;
  tiles.zero<4>();
  tiles.zero<5>();
  tiles.zero<6>();
  tiles.zero<7>();
  for (std::int64_t i = 0; i < rounds; ++i) {
    tiles.multiply_add<0, 4, 6>();
    tiles.multiply_add<1, 4, 7>();
    tiles.multiply_add<2, 5, 6>();
    tiles.multiply_add<3, 5, 7>();
  }
  alignas(64) float sums[256];
  tiles.store<0>(sums, 64);
  return sums[0];
}

}  // namespace

const ProductKernels& tile_products() {
  static constexpr ProductKernels kTable = tile_table<RealTiles>(enter_tiles, leave, spin);
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA

#endif
