// Bytes of a rank in closed form: fast enough for searches, and valid for other programs too. For the exact
// bytes of Stoa see memory_plan.h.
#pragma once

#include "plan/memory_model.h"
#include "plan/workload.h"

namespace stoa::plan {

// Bytes on the device that needs most.
struct MemorySplit {
  double weights = 0, gradients = 0, optimizer = 0;  // optimizer: master weights and moments
  double activations = 0;                            // all microbatches in flight
  double logits = 0;                                 // output layer and loss
  double working = 0;    // of the current layer: recomputed tensors, gathered parameters, buffers
  double overhead = 0;   // context, communication buffers, allocator
  double offloaded = 0;  // activations in host memory; not in the sum
  double sum() const { return weights + gradients + optimizer + activations + logits + working + overhead; }
};

// In the categories of a counted rank; without the context and buffers outside the program (overhead).
RankBytes rank_bytes(const MemorySplit& split);

// Saved activations of one layer and microbatch, bytes: 2205.05198 table 2 with this model's widths; without
// the s x s scores if attention is fused. For the paper's own accounting (no gated or grouped shapes) see
// paper_activations().
double activation_bytes(const Workload& w, bool experts);

// The same for the average layer.
double layer_activation_bytes(const Workload& w);

// Exactly the equations of 2205.05198, section 4: bytes of the first stage, per layer and with all extras.
struct PaperActivations {
  double per_layer = 0;
  double extras = 0;  // embedding dropout, final norm, output layer, logits
  double total = 0;   // first pipeline stage: L layers' worth, with interleaving
  double states = 0;  // parameters and optimizer, 18 bytes for each of 12 L h^2 / (t p) (figure 1)
};
PaperActivations paper_activations(const Workload& w);

// Parameters of a rank with this many layers: all of them, or what is trained of them, where `embedding` and
// `head` are the shares of the two that are.
struct RankParameters {
  double dense = 0, expert = 0;
  double vocabulary = 0;  // of embedding and head
  double positions = 0;
};
RankParameters rank_parameters(const Workload& w, double layers, bool first, bool last, double embedding = 1,
                               double head = 1);

// Bytes of pipeline rank `stage`.
MemorySplit stage_memory(const Workload& w, std::int64_t stage);
// Bytes of the pipeline rank that needs most; `stage` gets its number.
MemorySplit estimate_memory(const Workload& w, std::int64_t* stage = nullptr);

}  // namespace stoa::plan
