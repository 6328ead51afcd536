// Kernels of the gated delta rule: a text and a key head with its value heads, chunk by chunk.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct DeltaArgs {
  Rows q, k, v, o;        // row token * heads + head
  Rows dout, dq, dk, dv;  // backward
  std::int64_t key_heads = 0, value_heads = 0, key_width = 0, value_width = 0;
  const float* gate = nullptr;  // [T, Hv]: g
  const float* beta = nullptr;  // [T, Hv]
  float *dgate = nullptr, *dbeta = nullptr;
  float epsilon = 0;  // of the lengths of q and k
  float scale = 1;    // of q
};

struct DeltaTask {
  std::int64_t first = 0, tokens = 0;  // rows of the text
  std::int64_t key_head = 0;
  float* state = nullptr;  // [value heads of the key head, dk, dv]: read and replaced; null: zeros
};

struct DeltaKernels {
  // Floats of memory of a task, at an address of 64 bytes.
  std::int64_t (*forward_floats)(const DeltaArgs& args);
  std::int64_t (*backward_floats)(const DeltaArgs& args, std::int64_t longest);
  void (*forward)(const DeltaArgs& args, const DeltaTask& task, float* memory);
  void (*backward)(const DeltaArgs& args, const DeltaTask& task, float* memory);
};
STOA_FOR_EACH_WIDTH(const DeltaKernels&, gated_delta_kernels)

}  // namespace stoa::ops::cpu
