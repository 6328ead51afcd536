// Products with quantised matrices on the tiles of AMX.
#include "ops/cpu/quantised_kernels.h"

#if STOA_ISA_LEVEL >= 3

#include "ops/cpu/quantised_tiles.h"
#include "ops/cpu/real_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

void enter_unit_tiles() {
  alignas(64) static constexpr TileConfiguration kConfiguration = unit_tiles();
  asm volatile("ldtilecfg %0" : : "m"(kConfiguration));
}

}  // namespace

const QuantisedTiles& quantised_tiles() {
  static constexpr QuantisedTiles kTable{products_of_tiles<RealTiles>, enter_unit_tiles, leave_tiles};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA

#endif
