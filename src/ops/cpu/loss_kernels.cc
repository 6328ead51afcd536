#include "ops/cpu/loss_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

constexpr float kLowest = -3.402823466e38f;

template <class E>
void exponentials_of(const typename E::Storage* row, std::int64_t n, float scale, float* top, float* sum) {
  const auto logits = [&](std::int64_t i, auto part) __attribute__((always_inline)) {
    return E::get(row + i, part) * scale;
  };
  // Pieces stay in the first cache between the search of the maximum and the sum.
  constexpr std::int64_t kPiece = 2048;
  float highest = kLowest;
  F total{};
  for (std::int64_t c = 0; c < n; c += kPiece) {
    const std::int64_t count = n - c < kPiece ? n - c : kPiece;
    F peak = splat(highest);
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) peak = max(logits(c + i, Full{}), peak);
    float piece_top = reduce_max(peak);
    if (i < count) {
      float rest[kLanes];
      store(rest, logits(c + i, First{static_cast<int>(count - i)}));
      for (std::int64_t j = 0; j < count - i; ++j) piece_top = rest[j] > piece_top ? rest[j] : piece_top;
    }
    if (piece_top > highest) {
      total = total * exp(splat(highest - piece_top));
      highest = piece_top;
    }
    I lane;
    for (int j = 0; j < kLanes; ++j) lane[j] = j;
    for (i = 0; i + kLanes <= count; i += kLanes) total += exp(logits(c + i, Full{}) - highest);
    if (i < count) {
      const int left = static_cast<int>(count - i);
      total += select(lane < left, exp(logits(c + i, First{left}) - highest), F{});
    }
  }
  *top = highest;
  *sum = reduce_add(total);
}

template <class E>
void softmax_of(typename E::Storage* row, std::int64_t n, std::int64_t width, float lse, float weight,
                float shift) {
  for_vectors(n, [&](std::int64_t i, auto part) {
    E::put(row + i, exp(E::get(row + i, part) - lse) * weight - shift, part);
  });
  for_vectors(width - n, [&](std::int64_t i, auto part) { E::put(row + n + i, F{}, part); });
}

void exponentials(Element type, const void* row, std::int64_t n, float scale, float* top, float* sum) {
  with_type(type, [&](auto tag) {
    using E = decltype(tag);
    exponentials_of<E>(static_cast<const typename E::Storage*>(row), n, scale, top, sum);
  });
}

void softmax(Element type, void* row, std::int64_t n, std::int64_t width, float lse, float weight,
             float shift) {
  with_type(type, [&](auto tag) {
    using E = decltype(tag);
    softmax_of<E>(static_cast<typename E::Storage*>(row), n, width, lse, weight, shift);
  });
}

float total(Element type, const void* row, std::int64_t n) {
  float sum = 0;
  with_type(type, [&](auto tag) {
    using E = decltype(tag);
    F lanes{};
    for_vectors(n, [&](std::int64_t i, auto part) {
      lanes += E::get(static_cast<const typename E::Storage*>(row) + i, part);
    });
    sum = reduce_add(lanes);
  });
  return sum;
}

}  // namespace

const LossKernels& loss_kernels() {
  static constexpr LossKernels kTable{exponentials, softmax, total};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
