// Matrix products of a warpgroup, 128 threads, on sm_90a (wgmma). As thread.h, for the kernels that are
// compiled for that target alone.
#pragma once

#include "ops/cuda/kernels/thread.h"

#ifdef __CUDACC__

namespace stoa::ops::cuda {

// Address in the window of shared memory.
STOA_DEVICE std::uint32_t shared_address(const Thread&, const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
// What this thread wrote to shared memory, also by copies that it waited for, is there for products that begin
// behind the next barrier.
STOA_DEVICE void fence_for_products(const Thread&) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Asks for the 128 bytes around an address to be in the L2 cache soon.
STOA_DEVICE void prefetch_line(const Thread&, const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
}
// Before every group of products.
STOA_DEVICE void fence_registers(const Thread&) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
STOA_DEVICE void commit_products(const Thread&) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all but the last `kLeft` committed groups are complete.
template <int kLeft>
STOA_DEVICE void wait_products(const Thread&) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The 128 sums of a thread as operands of asm.
#define STOA_SUMS_8(s, i)                                                                              \
  "+f"(s[i]), "+f"(s[(i) + 1]), "+f"(s[(i) + 2]), "+f"(s[(i) + 3]), "+f"(s[(i) + 4]), "+f"(s[(i) + 5]), \
      "+f"(s[(i) + 6]), "+f"(s[(i) + 7])
#define STOA_SUMS_32(s, i) \
  STOA_SUMS_8(s, i), STOA_SUMS_8(s, (i) + 8), STOA_SUMS_8(s, (i) + 16), STOA_SUMS_8(s, (i) + 24)
#define STOA_SUMS_128(s) STOA_SUMS_32(s, 0), STOA_SUMS_32(s, 32), STOA_SUMS_32(s, 64), STOA_SUMS_32(s, 96)

// Between an access to sums and products that add to them.
STOA_DEVICE void fence_sums(const Thread&, float (&sums)[128]) {
  asm volatile("wgmma.fence.sync.aligned;" : STOA_SUMS_128(sums)::"memory");
}
// Waits for all groups; the sums can be read then.
STOA_DEVICE void wait_sums(const Thread&, float (&sums)[128]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : STOA_SUMS_128(sums)::"memory");
}

// sums += a b for a [64, 16] and b [16, 256], which begins and is complete when it was committed and waited
// for. Operands are vectors (rows of a, columns of b) in shared memory, named by descriptors; `kAcross`: the
// vectors of an element are neighbours, not the elements of a vector. Lane l of warp w of the warpgroup has
// rows 16 w + l / 4 (sums 0 and 1 of four) and 8 more (2 and 3), columns 8 j + 2 (l % 4) and the next, of
// which sums 4 j to 4 j + 3 are.
template <class T, bool kAcrossA, bool kAcrossB>
STOA_DEVICE void multiply_shared(const Thread&, std::uint64_t a, std::uint64_t b, float (&sums)[128]) {
#define STOA_MULTIPLY_SHARED(type)                                                                         \
  asm volatile(                                                                                            \
      "{.reg .pred p; setp.ne.b32 p, 1, 0; "                                                               \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {"                                    \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                             \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                   \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                   \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                   \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                   \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                   \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "       \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"     \
      "}, %128, %129, p, 1, 1, %130, %131;}"                                                               \
      : STOA_SUMS_128(sums)                                                                                \
      : "l"(a), "l"(b), "n"(kAcrossA ? 1 : 0), "n"(kAcrossB ? 1 : 0)                                       \
      : "memory")
  if constexpr (std::is_same_v<T, bf16>)
    STOA_MULTIPLY_SHARED("bf16");
  else
    STOA_MULTIPLY_SHARED("f16");
#undef STOA_MULTIPLY_SHARED
}

#undef STOA_SUMS_128
#undef STOA_SUMS_32
#undef STOA_SUMS_8

}  // namespace stoa::ops::cuda

#else
#include "ops/cuda/emulation/warpgroup.h"
#endif
