// bf16 products on the tiles of AMX. They come through inline assembly, so this file needs no compiler flags
// of its own: it is compiled with AVX-512-BF16, which every processor with tiles has, and called where the
// processor has tiles.
#include "ops/cpu/gemm_kernels.h"

#if STOA_ISA_LEVEL >= 3

#include "ops/cpu/gemm_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// The compiler's intrinsics do not say that a load reads memory; these do.
struct RealTiles {
  template <int T>
  [[gnu::always_inline]] void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  [[gnu::always_inline]] void load(const void* base, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  [[gnu::always_inline]] void store(void* base, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  [[gnu::always_inline]] void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};

void enter() {
  alignas(64) static constexpr TileConfiguration kConfiguration = whole_tiles();
  asm volatile("ldtilecfg %0" : : "m"(kConfiguration));
}

void leave() { asm volatile("tilerelease"); }

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
  static constexpr ProductKernels kTable = tile_products_with(tile_product<RealTiles>, enter, leave, spin);
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA

#endif
