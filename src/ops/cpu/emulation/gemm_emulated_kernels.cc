#include "ops/cpu/emulation/gemm_emulated.h"
#include "ops/cpu/emulation/memory_tiles.h"
#include "ops/cpu/gemm_tile_table.h"
#include "ops/cpu/real_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

struct EmulatedTiles : MemoryTiles {
  EmulatedTiles() : MemoryTiles(whole_tiles()) {}
};

#if STOA_ISA_LEVEL == 0
struct BrokenTiles : EmulatedTiles {
  template <int T>
  void store(void* base, std::int64_t stride) {
    float row[16];
    char* last = static_cast<char*>(base) + 15 * stride;
    std::memcpy(row, last, sizeof row);
    EmulatedTiles::store<T>(base, stride);
    std::memcpy(last, row, sizeof row);
  }
};
#endif

}  // namespace

const ProductKernels& emulated_products() {
  static constexpr ProductKernels kTable = tile_table<EmulatedTiles>(nullptr, nullptr, nullptr);
  return kTable;
}

#if STOA_ISA_LEVEL == 0
const ProductKernels& broken_products() {
  static constexpr ProductKernels kTable = tile_table<BrokenTiles>(nullptr, nullptr, nullptr);
  return kTable;
}
#endif

}  // namespace stoa::ops::cpu::STOA_ISA
