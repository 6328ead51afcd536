// What a kernel may ask of the machine: who am I, barriers, warp exchange, shared memory, matrix units. nvcc
// compiles it to the builtins; any other compiler to the block emulator, on which every kernel is tested
// without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define STOA_DEVICE __device__ __forceinline__
#define STOA_UNROLL _Pragma("unroll")

namespace stoa::ops::cuda {

extern __shared__ __align__(128) unsigned char stoa_shared_memory[];

// A block has one dimension and a number of threads that is a multiple of 32; all threads reach every barrier
// and every warp exchange.
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
  // Adds to a counter in shared memory that other threads add to: of integers, so that no order shows.
  STOA_DEVICE void count(std::int32_t& counter, std::int32_t by) const { atomicAdd(&counter, by); }
};

STOA_DEVICE float widen(float x) { return x; }
STOA_DEVICE float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
STOA_DEVICE float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
STOA_DEVICE double widen(double x) { return x; }

STOA_DEVICE void narrow(float x, float& out) { out = x; }
STOA_DEVICE void narrow(float x, bf16& out) { out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
STOA_DEVICE void narrow(float x, f16& out) { out.bits = __half_as_ushort(__float2half_rn(x)); }
STOA_DEVICE void narrow(float x, double& out) { out = x; }

STOA_DEVICE float reciprocal_root(float x) { return 1.0f / sqrtf(x); }
STOA_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
STOA_DEVICE float float_of(std::uint32_t x) { return __uint_as_float(x); }
STOA_DEVICE float fast_exp(float x) { return __expf(x); }

// Sixteen bytes, once: data that is not read again soon.
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

}  // namespace stoa::ops::cuda

#else
#include "ops/cuda/emulation/thread.h"
#endif
