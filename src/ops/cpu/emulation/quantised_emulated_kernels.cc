#include "ops/cpu/emulation/gemm_emulated.h"
#include "ops/cpu/emulation/memory_tiles.h"
#include "ops/cpu/quantised_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {

const QuantisedTiles* emulated_quantised() {
#if STOA_ISA_LEVEL >= 2
  static constexpr QuantisedTiles kTable{products_of_tiles<MemoryTiles>};
  return &kTable;
#else
  return nullptr;
#endif
}

}  // namespace stoa::ops::cpu::STOA_ISA
