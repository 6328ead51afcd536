// Learned logits that take part in the softmax of every query (ops/attention_sink.h).
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct AttentionSinkArgs {
  Element type = Element::kF32;  // of o and dout
  std::int64_t tokens = 0, heads = 0, width = 0;
  const float* sinks = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;  // backward, as dsinks
  float* dsinks = nullptr;
  bool accumulate = false;
};
void launch_attention_sink(const AttentionSinkArgs& args, void* stream);
void launch_attention_sink_backward(const AttentionSinkArgs& args, void* stream);

}  // namespace stoa::ops::cuda
