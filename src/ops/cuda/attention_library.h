// Attention libraries handle the cases that they support; Stoa's own kernels the others.
#pragma once

#include <cstddef>

#include "ops/attention.h"

namespace stoa::ops::cuda {

// A batch of sequences of one length, each one segment: what shapes alone can prove.
struct DenseAttention {
  DType type = DType::kBF16;
  std::int64_t batch = 0, length = 0, heads = 0, groups = 0, d = 0;
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;
  std::int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;  // backward
  bool causal = true, lse = true, backward = false;
  std::int64_t window = 0;
  float scale = 1;
  bool operator==(const DenseAttention&) const = default;
};

// The problem, if it is dense, of 16-bit type and without dropout; rows = 0 otherwise.
DenseAttention dense_of(const AttentionForward& op);
DenseAttention dense_of(const AttentionBackward& op);

struct AttentionPointers {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;     // backward: read
  float* lse = nullptr;  // [batch, heads, length]
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  // Whether the library has a plan for it. Plans are made here, once, and kept.
  virtual bool takes(const DenseAttention& problem) = 0;
  virtual std::size_t workspace_bytes(const DenseAttention& problem) = 0;
  virtual void run(const DenseAttention& problem, const AttentionPointers& pointers, void* stream,
                   void* workspace) = 0;
};

}  // namespace stoa::ops::cuda
