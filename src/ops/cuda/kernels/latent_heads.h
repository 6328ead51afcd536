// Keys and values of multi-head latent attention (ops/latent_heads.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// One copy, forward; two places change roles backward. Widths and strides are in units of `unit` bytes, as in
// CopyRowsArgs. kv, k and v (their gradients) are contiguous.
struct LatentHeadsArgs {
  std::int64_t unit = 0;
  std::int64_t tokens = 0, heads = 0;
  std::int64_t rope = 0, own = 0, value = 0;  // r, n, m
  void* kv = nullptr;
  void* shared = nullptr;  // [tokens, rope]; forward alone
  std::int64_t shared_stride = 0;
  void* k = nullptr;
  void* v = nullptr;
};
void launch_latent_heads(const LatentHeadsArgs& args, void* stream);
void launch_latent_heads_backward(const LatentHeadsArgs& args, void* stream);  // dkv

// drope[t, i] = sum over heads, in their order, of dk[t, head, i].
struct SharedGradientArgs {
  Element type = Element::kF32;
  const void* dk = nullptr;  // [tokens, heads, width]
  std::int64_t tokens = 0, heads = 0, width = 0;
  Rows drope;
};
void launch_shared_gradient(const SharedGradientArgs& args, void* stream);

}  // namespace stoa::ops::cuda
