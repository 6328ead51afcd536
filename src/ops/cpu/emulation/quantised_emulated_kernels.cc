#include "ops/cpu/emulation/gemm_emulated.h"

#if STOA_ISA_LEVEL >= 3
#include "ops/cpu/emulation/memory_tiles.h"
#include "ops/cpu/quantised_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {

const QuantisedTiles& emulated_quantised() {
  static constexpr QuantisedTiles kTable{products_of_tiles<MemoryTiles>};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
#endif
