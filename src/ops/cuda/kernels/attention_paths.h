// The two ways of computing attention: in fp32 without matrix units, in 16 bits on them.
#pragma once

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {

// There are queries and segments. Backward: delta is there; dk and dv of rows without a segment are not
// written.
void launch_scalar_attention_forward(const AttentionArgs& args, void* stream);
void launch_scalar_attention_backward(const AttentionArgs& args, void* stream);
void launch_matrix_attention_forward(const AttentionArgs& args, void* stream);
void launch_matrix_attention_backward_queries(const AttentionArgs& args, void* stream);  // dq, bias
void launch_matrix_attention_backward_keys(const AttentionArgs& args, void* stream);     // dk, dv

// Over keys in blocks of a cache, where matrix_attention_forward has heads of up to kLargestHead elements.
void launch_cached_scalar_attention(const AttentionArgs& args, void* stream);
void launch_large_cached_heads(const AttentionArgs& args, void* stream);  // in 16 bits
// Segments of up to args.few queries: states of spans of keys, which then become outputs.
void launch_few_scalar_queries(const AttentionArgs& args, void* stream);
void launch_few_large_heads(const AttentionArgs& args, void* stream);  // in 16 bits
void launch_few_queries(const AttentionArgs& args, void* stream);      // of up to kLargestHead elements
void launch_join_spans(const AttentionArgs& args, void* stream);

// Calls body with the 16-bit type and the largest head size of the kernel to take.
template <class Body>
void with_matrix_heads(const AttentionArgs& a, const Body& body) {
  const auto with_size = [&](auto type) {
    if (a.d <= 64)
      body(type, Width<64>{});
    else if (a.d <= 128)
      body(type, Width<128>{});
    else
      body(type, Width<256>{});
  };
  if (a.type == Element::kBF16)
    with_size(bf16{});
  else
    with_size(f16{});
}

}  // namespace stoa::ops::cuda
