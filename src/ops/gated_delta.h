// The gated delta rule (Yang et al. 2024, 2412.06464, section 3.1): linear attention whose state S, a matrix
// per value head, decays, and which replaces the value stored for a key instead of adding to it.
//
// For head h at token t, with q and k of key head h / (Hv / Hk) at length 1 (x / sqrt(x·x + 1e-6)) and q
// divided by sqrt(dk):
//   g = -exp(decay[h]) softplus(a[t, h] + bias[h]),  beta = sigmoid(b[t, h])
//   S = exp(g) S,  S = S + k (beta (v - S^T k))^T,  o[t, h] = S^T q
// A text begins with S = 0 or with the state left by its earlier tokens. Backends may process chunks of
// kDeltaChunk tokens (section 3.3); sums are in the accumulation type, in an order that depends only on
// shapes and texts.
#pragma once

#include "ops/sequences.h"

namespace stoa::ops {

inline constexpr std::int64_t kDeltaChunk = 64;
inline constexpr double kDeltaEpsilon = 1e-6;  // of the lengths of q and k

struct GatedDeltaForward {
  static constexpr const char* kName = "gated delta forward";
  Sequences texts;
  TensorView q, k;         // [T, Hk, dk]; rows may be strided, as those of all [T, ...]
  TensorView v;            // [T, Hv, dv], Hv a multiple of Hk
  TensorView a, b;         // [T, Hv]
  TensorView decay, bias;  // [Hv] accumulation type
  TensorView state;  // [n, Hv, dk, dv] accumulation type: read, and replaced by the new one. None: zeros
  TensorView o;      // [T, Hv, dv]

  template <class Self, class F>
  static void visit(Self& x, F&& f) {
    Sequences::visit(x.texts, f);
    f("q", x.q, Access::kRead);
    f("k", x.k, Access::kRead);
    f("v", x.v, Access::kRead);
    f("a", x.a, Access::kRead);
    f("b", x.b, Access::kRead);
    f("decay", x.decay, Access::kRead);
    f("bias", x.bias, Access::kRead);
    f("state", x.state, Access::kReadWrite);
    f("o", x.o, Access::kWrite);
  }
};

// Backward of a forward without `state`: the states between chunks are recomputed.
struct GatedDeltaBackward {
  static constexpr const char* kName = "gated delta backward";
  Sequences texts;
  TensorView q, k, v, a, b, decay, bias;
  TensorView dout;                // [T, Hv, dv]
  TensorView dq, dk, dv, da, db;  // shaped as q, k, v, a, b
  TensorView ddecay, dbias;       // [Hv] accumulation type
  bool accumulate = true;         // ddecay, dbias: += or =

  template <class Self, class F>
  static void visit(Self& x, F&& f) {
    const Access sums = x.accumulate ? Access::kReadWrite : Access::kWrite;
    Sequences::visit(x.texts, f);
    f("q", x.q, Access::kRead);
    f("k", x.k, Access::kRead);
    f("v", x.v, Access::kRead);
    f("a", x.a, Access::kRead);
    f("b", x.b, Access::kRead);
    f("decay", x.decay, Access::kRead);
    f("bias", x.bias, Access::kRead);
    f("dout", x.dout, Access::kRead);
    f("dq", x.dq, Access::kWrite);
    f("dk", x.dk, Access::kWrite);
    f("dv", x.dv, Access::kWrite);
    f("da", x.da, Access::kWrite);
    f("db", x.db, Access::kWrite);
    f("ddecay", x.ddecay, sums);
    f("dbias", x.dbias, sums);
  }
};

}  // namespace stoa::ops
