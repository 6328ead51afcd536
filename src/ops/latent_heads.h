// Keys and values of multi-head latent attention (DeepSeek-V2, 2405.04434, section 2.1) in the form that core
// attention reads: T tokens, H heads; a head's key has r rotated dimensions, shared by all heads, and n of
// its own; its value has m, m <= r + n.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// k[t, h] = [rope[t] | kv[t, h, 0:n]], v[t, h] = [kv[t, h, n:n+m] | zeros].
struct LatentHeads {
  static constexpr const char* kName = "latent heads";
  TensorView kv;    // [T, H, n + m]
  TensorView rope;  // [T, r]; rows may be strided
  TensorView k, v;  // [T, H, r + n]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("kv", a.kv, Access::kRead);
    f("rope", a.rope, Access::kRead);
    f("k", a.k, Access::kWrite);
    f("v", a.v, Access::kWrite);
  }
};

// drope is the sum over the heads, in their order.
struct LatentHeadsBackward {
  static constexpr const char* kName = "latent heads backward";
  TensorView dk, dv;  // [T, H, r + n]
  TensorView dkv;     // [T, H, n + m]
  TensorView drope;   // [T, r]; rows may be strided

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dk", a.dk, Access::kRead);
    f("dv", a.dv, Access::kRead);
    f("dkv", a.dkv, Access::kWrite);
    f("drope", a.drope, Access::kWrite);
  }
};

}  // namespace stoa::ops
