#include "ops/cpu/emulation/gemm_emulated.h"
#include "ops/cpu/gemm_tile_table.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

class EmulatedTiles {
 public:
  EmulatedTiles() { state_.configure(whole_tiles()); }
  template <int T>
  void zero() {
    state_.zero(T);
  }
  template <int T>
  void load(const void* base, std::int64_t stride) {
    state_.load(T, base, stride);
  }
  template <int T>
  void load_once(const void* base, std::int64_t stride) {
    load<T>(base, stride);
  }
  template <int T>
  void store(void* base, std::int64_t stride) {
    state_.store(T, base, stride);
  }
  template <int C, int A, int B>
  void multiply_add() {
    state_.multiply_add(C, A, B);
  }

 private:
  TileState state_;
};

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

}  // namespace

const ProductKernels& emulated_products() {
  static constexpr ProductKernels kTable = tile_table<EmulatedTiles>(nullptr, nullptr, nullptr);
  return kTable;
}

const ProductKernels& broken_products() {
  static constexpr ProductKernels kTable = tile_table<BrokenTiles>(nullptr, nullptr, nullptr);
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
