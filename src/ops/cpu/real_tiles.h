// The tile instructions of AMX, through inline assembly: a file that uses them needs no compiler flags for
// them. It is compiled with AVX-512-BF16, which every processor with tiles has, and called where the
// processor has tiles.
#pragma once

#include "ops/cpu/simd.h"
#include "ops/cpu/tile_semantics.h"

namespace stoa::ops::cpu::STOA_ISA {

// All eight tiles: 16 rows of 64 bytes.
constexpr TileConfiguration whole_tiles() {
  TileConfiguration c;
  c.palette = 1;
  for (int t = 0; t < 8; ++t) {
    c.rows[t] = 16;
    c.row_bytes[t] = 64;
  }
  return c;
}

#if STOA_ISA_LEVEL >= 3
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
  // For what is not used again soon: it is left in the L2 cache.
  template <int T>
  [[gnu::always_inline]] void load_once(const void* base, std::int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  [[gnu::always_inline]] void store(void* base, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  [[gnu::always_inline]] void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
  // Multiplies bytes; those of A are signed.
  template <int C, int A, int B, bool kUnsignedB>
  [[gnu::always_inline]] void multiply_add_bytes() {
    if constexpr (kUnsignedB)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    else
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};

// Before a thread's first and after its last use of tiles.
inline void enter_tiles() {
  alignas(64) static constexpr TileConfiguration kConfiguration = whole_tiles();
  asm volatile("ldtilecfg %0" : : "m"(kConfiguration));
}
inline void leave_tiles() { asm volatile("tilerelease"); }
#endif

}  // namespace stoa::ops::cpu::STOA_ISA
