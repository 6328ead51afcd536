// kernels/thread.h for the emulator.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/half.h"
#include "ops/cuda/emulation/block.h"

#define STOA_DEVICE inline
#define STOA_UNROLL

namespace stoa::ops::cuda {

class Thread {
 public:
  Thread(emulation::Block& block, int index) : block_(&block), index_(index) {}

  int index() const { return index_; }
  int count() const { return block_->threads(); }
  int lane() const { return index_ % 32; }
  int warp() const { return index_ / 32; }
  int warps() const { return count() / 32; }
  std::int64_t block_x() const { return block_->x(); }
  std::int64_t block_y() const { return block_->y(); }
  std::int64_t blocks_x() const { return block_->blocks_x(); }
  template <class T>
  T* shared() const {
    return static_cast<T*>(block_->shared());
  }
  void sync() const { block_->sync(index_); }
  void sync_warp() const { block_->sync_warp(index_); }
  template <class T>
  T shuffle_xor(T value, int mask) const {
    return from_lane(value, lane() ^ mask);
  }
  template <class T>
  T shuffle_up(T value, int by) const {
    return from_lane(value, lane() >= by ? lane() - by : lane());
  }
  template <class T>
  T shuffle(T value, int lane) const {
    return from_lane(value, lane);
  }
  unsigned ballot(bool value) const {
    const auto* slots = exchange(value);
    unsigned bits = 0;
    for (int i = 0; i < 32; ++i) bits |= static_cast<unsigned>(read<bool>(slots[i])) << i;
    return bits;
  }
  void count(std::int32_t& counter, std::int32_t by) const { counter += by; }
  std::uint32_t add(std::uint32_t& counter, std::uint32_t by) const {
    const std::uint32_t before = counter;
    counter += by;
    return before;
  }
  template <bool kTransposed>
  void load_matrices(const void* row, std::uint32_t (&out)[4]) const {
    require<InternalError>(reinterpret_cast<std::uintptr_t>(row) % 16 == 0, "a row of a matrix at address {}",
                           row);
    const auto* rows = exchange(row);
    const int g = lane() / 4, column = lane() % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const auto element = [&](int r, int c) {
        std::uint16_t bits;
        std::memcpy(&bits, static_cast<const std::byte*>(read<const void*>(rows[8 * i + r])) + 2 * c, 2);
        return std::uint32_t{bits};
      };
      out[i] = kTransposed ? element(column, g) | element(column + 1, g) << 16
                           : element(g, column) | element(g, column + 1) << 16;
    }
  }
  template <class T>
  void multiply(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (&c)[4]) const {
    struct Operands {  // widened by the lane that has them, not by each that multiplies
      float a[4][2], b[2][2];
    };
    Operands mine;
    const auto widen_pair = [](std::uint32_t word, float(&out)[2]) {
      for (int which = 0; which < 2; ++which) {
        T x;
        x.bits = static_cast<std::uint16_t>(word >> (16 * which));
        out[which] = static_cast<float>(x);
      }
    };
    for (int i = 0; i < 4; ++i) widen_pair(a[i], mine.a[i]);
    widen_pair(b0, mine.b[0]);
    widen_pair(b1, mine.b[1]);
    const auto* given = exchange(mine);
    const int first_row = lane() / 4 * 4, first_column = lane() % 4 * 8;
    for (int k = 0; k < 16; ++k) {
      const int piece = k % 8 / 2;
      const auto rows = read<Operands>(given[first_row + piece]);
      for (int column = 0; column < 2; ++column) {
        const float y = read<Operands>(given[first_column + 4 * column + piece]).b[k / 8][k % 2];
        for (int row = 0; row < 2; ++row) c[2 * row + column] += rows.a[row + 2 * (k / 8)][k % 2] * y;
      }
    }
  }
  void multiply_codes(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                      std::int32_t (&c)[4]) const {
    multiply_codes(a[0], a[1], b0, c);
    multiply_codes(a[2], a[3], b1, c);
  }
  void multiply_codes(std::uint32_t a0, std::uint32_t a1, std::uint32_t b, std::int32_t (&c)[4]) const {
    struct Words {
      std::uint32_t a[2], b;
    };
    const auto* given = exchange(Words{{a0, a1}, b});
    for (int piece = 0; piece < 4; ++piece) {
      const auto of = [&](int vector) { return read<Words>(given[vector * 4 + piece]); };
      const Words rows = of(lane() / 4);
      for (int column = 0; column < 2; ++column) {
        const std::uint32_t ys = of(lane() % 4 * 2 + column).b;
        for (int k = 0; k < 4; ++k) {
          const auto byte = [&](std::uint32_t word) { return static_cast<std::uint8_t>(word >> (8 * k)); };
          const int y = static_cast<std::int8_t>(byte(ys));
          for (int row = 0; row < 2; ++row) c[2 * row + column] += byte(rows.a[row]) * y;
        }
      }
    }
  }
  void copy16(void* to, const void* from, bool given) const {
    for (const void* address : {static_cast<const void*>(to), from})
      require<InternalError>(reinterpret_cast<std::uintptr_t>(address) % 16 == 0,
                             "a copy of 16 bytes at address {}", address);
    block_->copy_later(index_, to, given ? from : nullptr);
  }
  void commit_copies() const { block_->commit_copies(index_); }
  template <int kLeft>
  void wait_copies() const {
    block_->wait_copies(index_, kLeft);
  }
  emulation::AsyncProxy& async_proxy() const { return block_->async_proxy(); }
  // What every lane of the warp gave.
  template <class T>
  const emulation::Block::Slot* exchange(const T& value) const {
    return block_->exchange(index_, value);
  }
  template <class T>
  static T read(const emulation::Block::Slot& slot) {
    T value;
    std::memcpy(&value, slot.bytes.data(), sizeof(T));
    return value;
  }

 private:
  template <class T>
  T from_lane(T value, int lane) const {
    return read<T>(exchange(value)[lane & 31]);
  }

  emulation::Block* block_;
  int index_;
};

inline float widen(float x) { return x; }
inline float widen(bf16 x) { return static_cast<float>(x); }
inline float widen(f16 x) { return static_cast<float>(x); }
inline double widen(double x) { return x; }

inline void narrow(float x, float& out) { out = x; }
inline void narrow(float x, bf16& out) { out = bf16(x); }
inline void narrow(float x, f16& out) { out = f16(x); }
inline void narrow(float x, double& out) { out = static_cast<double>(x); }

template <class T>
std::uint32_t narrow_pair(float low, float high) {
  return static_cast<std::uint32_t>(T(high).bits) << 16 | T(low).bits;
}

inline std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  const auto half = [](std::uint32_t word, int which) {
    f16 x;
    x.bits = static_cast<std::uint16_t>(word >> (16 * which));
    return static_cast<float>(x);
  };
  return narrow_pair<f16>(half(a, 0) - half(b, 0), half(a, 1) - half(b, 1));
}
inline std::uint32_t select_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t which) {
  std::uint32_t out = 0;
  for (unsigned i = 0; i < 32; i += 8) {
    const unsigned byte = which >> (i / 2) & 7u;
    out |= ((byte < 4 ? low >> (8 * byte) : high >> (8 * (byte - 4))) & 255u) << i;
  }
  return out;
}
inline float rounded_product(float a, float b) { return a * b; }
inline int nearest_integer(float x) { return std::isnan(x) ? 0 : static_cast<int>(std::nearbyint(x)); }

inline float reciprocal_root(float x) { return 1.0f / std::sqrt(x); }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t x) { return std::bit_cast<float>(x); }
inline float fast_exp(float x) { return std::exp(x); }
inline float fast_divide(float x, float y) { return x / y; }

struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};
template <int kBytes = 16>
void expect_aligned(const void* at) {
  require<InternalError>(reinterpret_cast<std::uintptr_t>(at) % kBytes == 0, "a {}-byte access at address {}",
                         kBytes, at);
}
inline Bytes16 load16(const void* from) {
  expect_aligned(from);
  Bytes16 out;
  std::memcpy(&out, from, 16);
  return out;
}
inline void store16(void* to, const Bytes16& v) {
  expect_aligned(to);
  std::memcpy(to, &v, 16);
}
inline void load8(const void* from, std::uint32_t (&out)[2]) {
  expect_aligned<8>(from);
  std::memcpy(out, from, 8);
}
inline void store8(void* to, std::uint32_t first, std::uint32_t second) {
  expect_aligned<8>(to);
  const std::uint32_t words[2] = {first, second};
  std::memcpy(to, words, 8);
}
inline std::uint32_t load4(const void* from) {
  expect_aligned<4>(from);
  std::uint32_t v;
  std::memcpy(&v, from, 4);
  return v;
}
inline void store4(void* to, std::uint32_t v) {
  expect_aligned<4>(to);
  std::memcpy(to, &v, 4);
}

}  // namespace stoa::ops::cuda
