// Keys and values side by side in one matrix, as context-parallel ranks send them; chunks of a rank's tokens.
#pragma once

#include "nn/pass.h"
#include "ops/attention.h"

namespace stoa::nn {

struct PackedKeyValues {
  TensorView both;  // [tokens, 2 G d]
  Shape heads;      // [tokens, G, d]

  // Allocates scratch for `tokens` tokens with heads as in `like` [*, G, d].
  static PackedKeyValues allocate(Pass& pass, DType type, std::int64_t tokens, const TensorView& like) {
    Shape heads = like.shape;
    heads.set(0, tokens);
    return {pass.ops.scratch.allocate(type, {tokens, 2 * heads.inner()}), heads};
  }
  static PackedKeyValues of(Pass& pass, const TensorView& k, const TensorView& v) {
    const PackedKeyValues out = allocate(pass, k.dtype, k.rows(), k);
    ops::run(pass.ops, ops::CopyRows{.x = rows_of(k), .index = {}, .y = rows_of(out.k())});
    ops::run(pass.ops, ops::CopyRows{.x = rows_of(v), .index = {}, .y = rows_of(out.v())});
    return out;
  }

  TensorView k() const { return both.columns(0, heads.inner()).reshape(heads); }
  TensorView v() const { return both.columns(heads.inner(), heads.inner()).reshape(heads); }
  void copy_to(Pass& pass, const TensorView& k_out, const TensorView& v_out) const {
    ops::run(pass.ops, ops::CopyRows{.x = rows_of(k()), .index = {}, .y = rows_of(k_out)});
    ops::run(pass.ops, ops::CopyRows{.x = rows_of(v()), .index = {}, .y = rows_of(v_out)});
  }

 private:
  static TensorView rows_of(const TensorView& x) { return x.reshape({x.rows(), x.shape.inner()}); }
};

// The rows of a rank's early (0) or late (1) chunks.
inline TensorView chunk_of(const TensorView& x, int chunk) {
  const std::int64_t rows = x.rows() / 2;
  return x ? x.slice(chunk * rows, rows) : x;
}

// Restricts the tensors of queries to one of the chunks; the caller sets keys, values and segments.
inline ops::AttentionBackward of_queries(ops::AttentionBackward op, int chunk) {
  for (TensorView* x : {&op.q, &op.o, &op.lse, &op.dout, &op.dq}) *x = chunk_of(*x, chunk);
  return op;
}

}  // namespace stoa::nn
