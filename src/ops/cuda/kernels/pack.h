// V neighbouring elements as floats: in memory 16-byte accesses when V is 8, single elements when it is 1.
#pragma once

#include <type_traits>

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/thread.h"

namespace stoa::ops::cuda {

// Element `i` of 16 bytes, as float; and back.
template <class T>
STOA_DEVICE float get(const Bytes16& bytes, int i) {
  if constexpr (sizeof(T) == 4) {
    return float_of(bytes.words[i]);
  } else {
    T x;
    x.bits = static_cast<std::uint16_t>(bytes.words[i / 2] >> (16 * (i % 2)));
    return widen(x);
  }
}
template <class T>
STOA_DEVICE void put(Bytes16& bytes, int i, float value) {
  if constexpr (sizeof(T) == 4) {
    bytes.words[i] = bits_of(value);
  } else {
    T x;
    narrow(value, x);
    if (i % 2 == 0)
      bytes.words[i / 2] = x.bits;
    else
      bytes.words[i / 2] |= static_cast<std::uint32_t>(x.bits) << 16;
  }
}

// The first `count` of eight 16-bit elements, at any address; zeros behind them.
template <class T>
STOA_DEVICE Bytes16 first_of_8(const T* from, std::int64_t count) {
  Bytes16 out{};
  STOA_UNROLL
  for (int j = 0; j < 8; ++j)
    if (j < count) out.words[j / 2] |= static_cast<std::uint32_t>(from[j].bits) << (16 * (j % 2));
  return out;
}

template <int V, class T>
STOA_DEVICE void load_pack(const T* from, float (&out)[V]) {
  if constexpr (V == 1) {
    out[0] = widen(from[0]);
  } else {
    constexpr int kEach = 16 / static_cast<int>(sizeof(T));
    STOA_UNROLL
    for (int i = 0; i < V; i += kEach) {
      const Bytes16 piece = load16(from + i);
      STOA_UNROLL
      for (int j = 0; j < kEach; ++j) out[i + j] = get<T>(piece, j);
    }
  }
}

// in[i] and what follows, as 16 bytes of elements.
template <class T, int V>
STOA_DEVICE Bytes16 bytes_of_values(const float (&in)[V], int i) {
  Bytes16 out;
  STOA_UNROLL
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(T) == 4)
      out.words[w] = bits_of(in[i + w]);
    else
      out.words[w] = narrow_pair<T>(in[i + 2 * w], in[i + 2 * w + 1]);
  }
  return out;
}

template <int V, class T>
STOA_DEVICE void store_pack(T* to, const float (&in)[V]) {
  if constexpr (V == 1) {
    narrow(in[0], to[0]);
  } else {
    constexpr int kEach = 16 / static_cast<int>(sizeof(T));
    STOA_UNROLL
    for (int i = 0; i < V; i += kEach) store16(to + i, bytes_of_values<T>(in, i));
  }
}

// V neighbouring elements as they are in memory: what is read ahead or kept takes half the registers of
// floats.
template <class T, int V>
struct RawPack {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(T));
  std::conditional_t<V == 1, T, Bytes16> pieces[V == 1 ? 1 : V / kEach];

  STOA_DEVICE void load(const T* from) {
    if constexpr (V == 1) {
      pieces[0] = from[0];
    } else {
      STOA_UNROLL
      for (int i = 0; i < V / kEach; ++i) pieces[i] = load16(from + i * kEach);
    }
  }
  STOA_DEVICE void store(T* to) const {
    if constexpr (V == 1) {
      to[0] = pieces[0];
    } else {
      STOA_UNROLL
      for (int i = 0; i < V / kEach; ++i) store16(to + i * kEach, pieces[i]);
    }
  }
  STOA_DEVICE void read(float (&out)[V]) const {
    if constexpr (V == 1) {
      out[0] = widen(pieces[0]);
    } else {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) out[j] = get<T>(pieces[j / kEach], j % kEach);
    }
  }
  // Rounded to T.
  STOA_DEVICE void write(const float (&in)[V]) {
    if constexpr (V == 1) {
      narrow(in[0], pieces[0]);
    } else {
      STOA_UNROLL
      for (int i = 0; i < V / kEach; ++i) pieces[i] = bytes_of_values<T>(in, i * kEach);
    }
  }
};

template <class T>
STOA_DEVICE T* row_of(const Rows& rows, std::int64_t r) {
  const std::int64_t outer = rows.inner == 1 ? r : r / rows.inner;
  return static_cast<T*>(rows.data) + outer * rows.stride + (r - outer * rows.inner) * rows.columns;
}

}  // namespace stoa::ops::cuda
