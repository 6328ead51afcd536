// The hardware functions of kernels: indices, barriers, warp exchange, shared memory, matrix units. nvcc
// compiles them to builtins; any other compiler to the block emulator, on which every kernel is tested
// without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/half.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define STOA_DEVICE __device__ __forceinline__
#define STOA_UNROLL _Pragma("unroll")

namespace stoa::ops::cuda {

extern __shared__ __align__(128) unsigned char stoa_shared_memory[];

// Blocks are one-dimensional, with a multiple of 32 threads; all threads must reach every barrier and every
// warp exchange.
class Thread {
 public:
  STOA_DEVICE int index() const { return static_cast<int>(threadIdx.x); }
  STOA_DEVICE int count() const { return static_cast<int>(blockDim.x); }
  STOA_DEVICE int lane() const { return static_cast<int>(threadIdx.x & 31u); }
  STOA_DEVICE int warp() const { return static_cast<int>(threadIdx.x >> 5u); }
  STOA_DEVICE int warps() const { return static_cast<int>(blockDim.x >> 5u); }
  STOA_DEVICE std::int64_t block_x() const { return blockIdx.x; }
  STOA_DEVICE std::int64_t block_y() const { return blockIdx.y; }
  STOA_DEVICE std::int64_t blocks_x() const { return gridDim.x; }
  template <class T>
  STOA_DEVICE T* shared() const {
    return reinterpret_cast<T*>(stoa_shared_memory);
  }
  STOA_DEVICE void sync() const { __syncthreads(); }
  STOA_DEVICE void sync_warp() const { __syncwarp(); }
  template <class T>
  STOA_DEVICE T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  template <class T>
  STOA_DEVICE T shuffle_up(T value, int by) const {  // lanes below `by` keep their own
    return __shfl_up_sync(0xffffffffu, value, by);
  }
  template <class T>
  STOA_DEVICE T shuffle(T value, int lane) const {
    return __shfl_sync(0xffffffffu, value, lane);
  }
  STOA_DEVICE unsigned ballot(bool value) const { return __ballot_sync(0xffffffffu, value); }
  // Loads four 8 x 8 matrices of 16-bit elements from shared memory; lane 8 i + r passes the address of row r
  // of matrix i, 16 bytes. From each matrix a lane gets elements (g, 2 t) and (g, 2 t + 1), with kTransposed
  // (2 t, g) and (2 t + 1, g): g = lane / 4, t = lane % 4.
  template <bool kTransposed>
  STOA_DEVICE void load_matrices(const void* row, std::uint32_t (&out)[4]) const {
    const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (kTransposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(at)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(at)
                   : "memory");
  }
  // c += a b on the matrix units: a [16, 16] in blocks of 8 x 8 (rows 0, columns 0), (8, 0), (0, 8), (8, 8),
  // b [16, 8] in blocks (0, 0), (8, 0), transposed, both as load_matrices() returns them; c [16, 8]: elements
  // (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
  template <class T>
  STOA_DEVICE void multiply(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                            float (&c)[4]) const {
    if constexpr (std::is_same_v<T, bf16>)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // c += a b in whole numbers: a [16, 32] of unsigned bytes, b [32, 8] of signed ones. A lane has four
  // columns in a word, those of row g from 4 t on in a[0], of row g + 8 in a[1], from 16 + 4 t on in a[2] and
  // a[3]; the same of column g of b in b0 and b1. c as above.
  STOA_DEVICE void multiply_codes(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                  std::int32_t (&c)[4]) const {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // The same with 16 columns of a, and as many rows of b.
  STOA_DEVICE void multiply_codes(std::uint32_t a0, std::uint32_t a1, std::uint32_t b,
                                  std::int32_t (&c)[4]) const {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
  }
  // Starts copying 16 bytes from global to shared memory (zeros if not `given`) without waiting. Visible to
  // this thread after wait_copies(), to the others after a barrier behind that.
  STOA_DEVICE void copy16(void* to, const void* from, bool given) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from)), "r"(given ? 16 : 0)
                 : "memory");
  }
  STOA_DEVICE void commit_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // Waits until all but the last `kLeft` committed groups are complete.
  template <int kLeft>
  STOA_DEVICE void wait_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
  }
  // Adds to a shared-memory counter that other threads update too: integers, so that the order is irrelevant.
  STOA_DEVICE void count(std::int32_t& counter, std::int32_t by) const { atomicAdd(&counter, by); }
  // The same; returns what it was before.
  STOA_DEVICE std::uint32_t add(std::uint32_t& counter, std::uint32_t by) const {
    return atomicAdd(&counter, by);
  }
};

STOA_DEVICE float widen(float x) { return x; }
STOA_DEVICE float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
STOA_DEVICE float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
STOA_DEVICE double widen(double x) { return x; }

STOA_DEVICE void narrow(float x, float& out) { out = x; }
STOA_DEVICE void narrow(float x, bf16& out) { out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
STOA_DEVICE void narrow(float x, f16& out) { out.bits = __half_as_ushort(__float2half_rn(x)); }
STOA_DEVICE void narrow(float x, double& out) { out = x; }

// Two 16-bit elements, `low` at the lower address.
template <class T>
STOA_DEVICE std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t out;
  if constexpr (std::is_same_v<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

// a - b of two fp16 each.
STOA_DEVICE std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
// Byte i of the result is that byte of `low` (0 to 3) or `high` (4 to 7) which bits [4 i, 4 i + 3) of `which`
// name.
STOA_DEVICE std::uint32_t select_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t which) {
  return __byte_perm(low, high, which);
}
// Never fused with an addition behind it.
STOA_DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
// Halves to even; what is not a number becomes 0.
STOA_DEVICE int nearest_integer(float x) { return __float2int_rn(x); }

STOA_DEVICE float reciprocal_root(float x) { return 1.0f / sqrtf(x); }
STOA_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
STOA_DEVICE float float_of(std::uint32_t x) { return __uint_as_float(x); }
// 0 where the result is below 2^-126: without this, three instructions for such results stand around each
// exponential.
STOA_DEVICE float fast_exp(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * 1.44269504088896341f));
  return out;
}
STOA_DEVICE float fast_divide(float x, float y) { return __fdividef(x, y); }  // 0 where |y| is beyond 2^126

// Sixteen bytes, for streaming access to data that is not reused soon.
struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};
STOA_DEVICE Bytes16 load16(const void* from) {
  const uint4 v = *static_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}
STOA_DEVICE void store16(void* to, const Bytes16& v) {
  *static_cast<uint4*>(to) = make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]);
}
STOA_DEVICE void load8(const void* from, std::uint32_t (&out)[2]) {
  const uint2 v = *static_cast<const uint2*>(from);
  out[0] = v.x, out[1] = v.y;
}
STOA_DEVICE void store8(void* to, std::uint32_t first, std::uint32_t second) {
  *static_cast<uint2*>(to) = make_uint2(first, second);
}
STOA_DEVICE std::uint32_t load4(const void* from) { return *static_cast<const std::uint32_t*>(from); }
STOA_DEVICE void store4(void* to, std::uint32_t v) { *static_cast<std::uint32_t*>(to) = v; }

}  // namespace stoa::ops::cuda

#else
#include "ops/cuda/emulation/thread.h"
#endif
