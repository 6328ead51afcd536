// Programs as data: which kernels and overlaps a release has. Stoa's own entry describes this program; the
// others exist to judge published figures, and every flag is what a source states
// (configs/planner/software_profiles.yaml).
#pragma once

#include <span>
#include <string>

#include "config/schema.h"

namespace stoa::plan {

enum class AttentionKernel {
  kUnfused,  // two batched products on the whole s x s, softmax between them in memory
  kTriton,   // first fused kernels (2022-2023), with a bias
  kFlash     // 2307.08691 and after
};
std::span<const config::EnumName<AttentionKernel>> enum_names(AttentionKernel);

struct Software {
  std::string release = "stoa";  // calibrations know it by this name
  AttentionKernel attention = AttentionKernel::kFlash;
  bool overlap_gradients = false;   // reductions run beside the last backward pass
  bool overlap_parameters = false;  // gathers run beside the next forward pass
  bool overlap_tensor = false;      // tensor-parallel collectives run beside products
  bool overlap_pipeline = false;    // stage-to-stage transfers run beside computation
  // Tensor-parallel ranks send a slice each to the next stage, which gathers it (2104.04473 section 4.1).
  bool sliced_sends = false;
  bool gathers_fp8 = false;     // of sequence parallelism, where an fp8 product reads what is gathered
  bool fused = true;            // element-wise chains are one kernel
  bool compiled = false;        // whole layers are compiled or captured: little host time
  double gradient_bytes = 4;    // in which gradients are held; they travel in at most 4
  double optimizer_bytes = 12;  // per parameter: master weight and two moments, with what a step adds
  // What a figure of memory counts beside tensors. 0 for peak-allocated figures and for this program, whose
  // arena is planned; for used memory of the device: its context and buffers, and blocks that a caching
  // allocator keeps.
  double memory_context_gb = 0;
  double memory_fragmentation = 0;  // share of the activations
  bool balanced_context = true;     // every context rank has as many visible keys
};

void declare(config::Section<Software>& s);

}  // namespace stoa::plan
