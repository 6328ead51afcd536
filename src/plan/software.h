// Training programs as data: the kernels and overlaps of a release. Stoa's own entry describes this program;
// the others serve to interpret published figures, and every flag is what a source states
// (configs/planner/software_profiles.yaml).
#pragma once

#include <span>
#include <string>

#include "config/schema.h"

namespace stoa::plan {

enum class AttentionKernel {
  kUnfused,  // two batched GEMMs on the whole s x s, softmax between them in memory
  kTriton,   // first fused kernels (2022-2023), with a bias
  kFlash     // 2307.08691 and after
};
std::span<const config::EnumName<AttentionKernel>> enum_names(AttentionKernel);

struct Software {
  std::string release = "stoa";  // the name used in calibrations
  AttentionKernel attention = AttentionKernel::kFlash;
  bool overlap_gradients = false;   // reductions run during the last backward pass
  bool overlap_parameters = false;  // gathers run during the next forward pass
  bool overlap_tensor = false;      // tensor-parallel collectives run during GEMMs
  bool overlap_pipeline = false;    // stage-to-stage transfers run during computation
  // Tensor-parallel ranks send a slice each to the next stage, which gathers it (2104.04473 section 4.1).
  bool sliced_sends = false;
  bool overlap_experts =
      false;                  // rows travel to experts and back during the computation of another microbatch
  bool dispatch_fp8 = false;  // rows travel to experts in 8 bits where the products are of 8 bits
  // A token crosses the network once for each node with some of its experts, and is copied there.
  bool forwards_in_node = false;
  bool gathers_fp8 = false;  // in sequence parallelism, if an FP8 GEMM reads the gathered rows
  bool fused = true;         // element-wise chains are one kernel
  bool compiled = false;     // whole layers are compiled or captured: little host time
  // Inputs of FP8 GEMMs are kept for the backward pass in 8 bits; norms and gated activations are recomputed
  // where recomputation is selective.
  bool keeps_fp8 = false;
  double gradient_bytes = 4;    // per element of held gradients; at most 4 are sent
  double optimizer_bytes = 12;  // per parameter: master weight and two moments, and temporaries of a step
  // What a reported memory figure includes besides tensors: 0 for peak-allocated figures and for this
  // program, whose arena is planned; for device memory in use: context, buffers, and blocks kept by a caching
  // allocator.
  double memory_context_gb = 0;
  double memory_fragmentation = 0;  // share of the activations
  bool balanced_context = true;     // every context rank has equally many visible keys
};

void declare(config::Section<Software>& s);

}  // namespace stoa::plan
