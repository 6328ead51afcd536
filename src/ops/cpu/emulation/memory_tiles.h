// The tile instructions of AMX on plain memory, with the interface of RealTiles.
#pragma once

#include "ops/cpu/tile_semantics.h"

namespace stoa::ops::cpu::STOA_ISA {

class MemoryTiles {
 public:
  explicit MemoryTiles(const TileConfiguration& configuration) { state_.configure(configuration); }
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
  template <int C, int A, int B, bool kUnsignedB>
  void multiply_add_bytes() {
    state_.multiply_add_bytes(C, A, B, kUnsignedB);
  }

 private:
  TileState state_;
};

}  // namespace stoa::ops::cpu::STOA_ISA
