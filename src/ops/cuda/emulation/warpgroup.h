// kernels/warpgroup.h for the emulator.
#pragma once

#include "ops/cuda/emulation/thread.h"

namespace stoa::ops::cuda {

inline std::uint32_t shared_address(const Thread& t, const void* at) { return t.async_proxy().address(at); }
inline void fence_for_products(const Thread& t) { t.async_proxy().fence(t.index()); }
inline void prefetch_line(const Thread&, const void*) {}
inline void fence_registers(const Thread& t) {
  t.sync_warp();
  t.async_proxy().fence_registers(t.index());
}
inline void commit_products(const Thread& t) {
  t.sync_warp();
  t.async_proxy().commit(t.index());
}
template <int kLeft>
void wait_products(const Thread& t) {
  t.sync_warp();
  t.async_proxy().wait(t.index(), kLeft);
}
inline void fence_sums(const Thread& t, float (&)[128]) { fence_registers(t); }
inline void wait_sums(const Thread& t, float (&)[128]) { wait_products<0>(t); }

template <class T, bool kAcrossA, bool kAcrossB>
void multiply_shared(const Thread& t, std::uint64_t a, std::uint64_t b, float (&sums)[128]) {
  struct Descriptors {
    std::uint64_t a, b;
  };
  const auto first = Thread::read<Descriptors>(t.exchange(Descriptors{a, b})[0]);
  require<InternalError>(first.a == a && first.b == b, "lanes 0 and {} of a warp multiply different operands",
                         t.lane());
  const auto widened = [](std::uint16_t bits) {
    T x;
    x.bits = bits;
    return static_cast<float>(x);
  };
  t.async_proxy().multiply(t.index(), {a, kAcrossA}, {b, kAcrossB}, 256, widened, sums);
}

}  // namespace stoa::ops::cuda
