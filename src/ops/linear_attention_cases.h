// Operations of linear attention with random tensors, for tests.
#pragma once

#include "ops/op_test_util.h"

namespace stoa::ops::testing {

struct DeltaCase {
  std::string name;
  std::int64_t keys, values, dk, dv;
  std::vector<std::int32_t> lengths;  // of texts, after `skipped` rows of nobody, and as many behind
  std::int32_t skipped = 0;
  std::int64_t gap = 0;  // between rows
  bool with_state = false;
};

inline Sequences make_texts(Tensors& t, const std::vector<std::int32_t>& lengths, std::int32_t skipped) {
  std::vector<std::int32_t> begin{skipped};
  for (const std::int32_t n : lengths) begin.push_back(begin.back() + n);
  return {t.int32(begin), static_cast<std::int64_t>(lengths.size()),
          lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end())};
}

inline std::int64_t rows_of_texts(const Sequences& texts, std::int32_t skipped) {
  return texts.begin.as<std::int32_t>()[texts.count] + skipped;
}

inline GatedDeltaForward make_delta(Tensors& t, const DeltaCase& c, DType type) {
  const DType sum = accumulation_type(type);
  GatedDeltaForward op;
  op.texts = make_texts(t, c.lengths, c.skipped);
  const std::int64_t rows = rows_of_texts(op.texts, c.skipped), texts = op.texts.count;
  op.q = t.random(type, {rows, c.keys, c.dk}, 1, c.gap);
  op.k = t.random(type, {rows, c.keys, c.dk}, 1, c.gap);
  op.v = t.random(type, {rows, c.values, c.dv}, 1, c.gap);
  op.a = t.random(type, {rows, c.values}, 1, c.gap, -1);
  op.b = t.random(type, {rows, c.values}, 1, c.gap);
  op.decay = t.random(sum, {c.values}, 0.5);
  op.bias = t.random(sum, {c.values});
  if (c.with_state) op.state = t.random(sum, {texts, c.values, c.dk, c.dv});
  op.o = t.empty(type, {rows, c.values, c.dv}, c.gap);
  return op;
}

inline GatedDeltaBackward make_backward(Tensors& t, const GatedDeltaForward& f, bool accumulate) {
  const auto like = [&](const TensorView& x) {
    return t.empty(x.dtype, x.shape, x.stride0 - x.shape.inner());
  };
  GatedDeltaBackward op;
  op.texts = f.texts;
  op.q = f.q, op.k = f.k, op.v = f.v, op.a = f.a, op.b = f.b, op.decay = f.decay, op.bias = f.bias;
  op.dout = t.random(f.o.dtype, f.o.shape);
  op.dq = like(f.q), op.dk = like(f.k), op.dv = like(f.v), op.da = like(f.a), op.db = like(f.b);
  op.ddecay = t.random(f.decay.dtype, f.decay.shape);
  op.dbias = t.random(f.bias.dtype, f.bias.shape);
  op.accumulate = accumulate;
  return op;
}

}  // namespace stoa::ops::testing
