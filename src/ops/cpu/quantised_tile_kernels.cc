// Products with quantised matrices on the tiles of AMX.
#include "ops/cpu/quantised_kernels.h"

#if STOA_ISA_LEVEL >= 3

#include "ops/cpu/quantised_tiles.h"
#include "ops/cpu/real_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

class RealUnitTiles : public RealTiles {
 public:
  explicit RealUnitTiles(const TileConfiguration& configuration) {
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  ~RealUnitTiles() { leave_tiles(); }
  RealUnitTiles(const RealUnitTiles&) = delete;
};

}  // namespace

const QuantisedTiles& quantised_tiles() {
  static constexpr QuantisedTiles kTable{products_of_tiles<RealUnitTiles>};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA

#endif
