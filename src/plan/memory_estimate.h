// Bytes of a rank in closed form: quick enough for searches and for other people's programs. The exact bytes
// of this program are memory_plan.h.
#pragma once

#include "plan/workload.h"

namespace stoa::plan {

// Bytes of the device that needs most.
struct MemorySplit {
  double weights = 0, gradients = 0, optimizer = 0;  // optimizer: master weights and moments
  double activations = 0;                            // all microbatches in flight
  double logits = 0;                                 // output layer and loss
  double working = 0;    // of the layer under way: what it computes again, gathered parameters, buffers
  double overhead = 0;   // context, communication buffers, allocator
  double offloaded = 0;  // activations in host memory; not of the device
  double sum() const { return weights + gradients + optimizer + activations + logits + working + overhead; }
};

// Saved activations of one layer and microbatch, bytes: 2205.05198 table 2 with this model's widths. `fused`:
// without the s x s scores. The paper's own accounting (no gated or grouped shapes):
// paper_activation_bytes().
double activation_bytes(const Workload& w, bool experts);

// Of the average layer.
double layer_activation_bytes(const Workload& w);

// 2205.05198, equations of section 4 exactly: bytes of the first stage, per layer and with all extras.
struct PaperActivations {
  double per_layer = 0;
  double extras = 0;  // embedding dropout, final norm, output layer, logits
  double total = 0;   // of the first pipeline stage: L layers' worth, interleaving counted
  double states = 0;  // parameters and optimizer, 18 bytes for each of 12 L h^2 / (t p) (figure 1)
};
PaperActivations paper_activations(const Workload& w);

// Of pipeline rank `stage`.
MemorySplit stage_memory(const Workload& w, std::int64_t stage);
// Of the rank that needs most. `stage`: which one.
MemorySplit estimate_memory(const Workload& w, std::int64_t* stage = nullptr);

}  // namespace stoa::plan
