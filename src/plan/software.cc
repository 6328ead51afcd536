#include "plan/software.h"

#include <array>

namespace stoa::plan {

std::span<const config::EnumName<AttentionKernel>> enum_names(AttentionKernel) {
  static constexpr std::array<config::EnumName<AttentionKernel>, 3> kNames{
      {{"unfused", AttentionKernel::kUnfused},
       {"triton", AttentionKernel::kTriton},
       {"flash", AttentionKernel::kFlash}}};
  return kNames;
}

void declare(config::Section<Software>& s) {
  s.field("release", &Software::release).not_empty().help("Name of the program in calibrations.");
  s.field("attention", &Software::attention).help("Kernel of the attention core.");
  s.field("overlap_gradients", &Software::overlap_gradients)
      .help("Gradient reductions overlap the last backward pass.");
  s.field("overlap_parameters", &Software::overlap_parameters)
      .help("Parameter gathers overlap the next forward pass.");
  s.field("overlap_tensor", &Software::overlap_tensor).help("Tensor-parallel collectives overlap GEMMs.");
  s.field("overlap_pipeline", &Software::overlap_pipeline)
      .help("Stage-to-stage transfers overlap computation.");
  s.field("sliced_sends", &Software::sliced_sends)
      .help("Tensor-parallel ranks send a slice each to the next stage, which gathers it.");
  s.field("overlap_experts", &Software::overlap_experts)
      .help("Rows travel to experts and back during the computation of another microbatch.");
  s.field("keeps_fp8", &Software::keeps_fp8)
      .help("Inputs of FP8 GEMMs are kept in 8 bits; norms and gated activations are recomputed.");
  s.field("dispatch_fp8", &Software::dispatch_fp8)
      .help("Rows travel to experts in 8 bits where products are of 8 bits.");
  s.field("forwards_in_node", &Software::forwards_in_node)
      .help("A token crosses the network once for each node with some of its experts, and is copied there.");
  s.field("gathers_fp8", &Software::gathers_fp8)
      .help("Sequence parallelism gathers the inputs of FP8 GEMMs in 8 bits.");
  s.field("fused", &Software::fused).help("Chains of element-wise operations are one kernel.");
  s.field("compiled", &Software::compiled).help("Layers are compiled or captured whole: little host time.");
  s.field("gradient_bytes", &Software::gradient_bytes)
      .range(1, 8)
      .help("Bytes per element of gradients sent between ranks.");
  s.field("optimizer_bytes", &Software::optimizer_bytes)
      .range(0, 24)
      .help("Bytes of optimizer state per parameter.");
  s.field("memory_context_gb", &Software::memory_context_gb)
      .range(0, 30)
      .unit("10^9 bytes")
      .help("Context and buffers within figures of used memory.");
  s.field("memory_fragmentation", &Software::memory_fragmentation)
      .range(0, 1)
      .unit("share of the activations")
      .help("Blocks cached by the allocator.");
  s.field("balanced_context", &Software::balanced_context)
      .help("Every rank of a context-parallel group has as many visible keys.");
}

}  // namespace stoa::plan
