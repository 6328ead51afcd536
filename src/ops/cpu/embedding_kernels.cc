#include "ops/cpu/embedding_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

template <class E, class Y>
void forward_rows(const EmbeddingArgs& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = a.y.columns;
  const std::int64_t piece = a.dropout.p == 0 ? columns : kDropoutPiece;
  float factors[kDropoutPiece];
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t id = a.tokens[t] - a.first_id;
    auto* y = row_of<Y>(a.y, t);
    if (id < 0 || id >= a.ids) {
      for_vectors(columns, [&](std::int64_t i, auto part) { Y::put(y + i, F{}, part); });
      continue;
    }
    const auto* word = row_of<E>(a.table, id);
    const auto* place = a.position_table.data ? row_of<E>(a.position_table, a.positions[t]) : nullptr;
    for (std::int64_t c = 0; c < columns; c += piece) {
      const std::int64_t n = columns - c < piece ? columns - c : piece;
      if (a.dropout.p != 0) dropout_factors(a.dropout, a.dropout.first + t * columns + c, n, factors);
      for_vectors(n, [&](std::int64_t i, auto part) {
        F value = E::get(word + c + i, part);
        if (place) value += E::get(place + c + i, part);
        if (a.dropout.p != 0) value = value * F32::get(factors + i, part);
        Y::put(y + c + i, value, part);
      });
    }
  }
}

void forward(const EmbeddingArgs& a, std::int64_t begin, std::int64_t end) {
  with_type(a.table.type, [&](auto table) {
    with_type(a.y.type, [&](auto y) { forward_rows<decltype(table), decltype(y)>(a, begin, end); });
  });
}

template <class Y>
void backward_columns(const EmbeddingArgs& a, std::int64_t tokens, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = a.y.columns;
  float factors[kDropoutPiece];
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto* dy = row_of<Y>(a.y, t);
    const std::int64_t id = a.tokens[t] - a.first_id;
    float* word = a.table.data && id >= 0 && id < a.ids ? row_of<F32>(a.table, id) : nullptr;
    float* place = a.position_table.data ? row_of<F32>(a.position_table, a.positions[t]) : nullptr;
    for (std::int64_t c = begin; c < end; c += kDropoutPiece) {
      const std::int64_t n = end - c < kDropoutPiece ? end - c : kDropoutPiece;
      if (a.dropout.p != 0) dropout_factors(a.dropout, a.dropout.first + t * columns + c, n, factors);
      for_vectors(n, [&](std::int64_t i, auto part) {
        F d = Y::get(dy + c + i, part);
        if (a.dropout.p != 0) d = d * F32::get(factors + i, part);
        if (word) F32::put(word + c + i, F32::get(word + c + i, part) + d, part);
        if (place) F32::put(place + c + i, F32::get(place + c + i, part) + d, part);
      });
    }
  }
}

void backward(const EmbeddingArgs& a, std::int64_t tokens, std::int64_t begin, std::int64_t end) {
  with_type(a.y.type, [&](auto y) { backward_columns<decltype(y)>(a, tokens, begin, end); });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kTable{forward, backward};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
