// Which activations are kept for backward, which of those are offloaded to host memory, and which are
// recomputed: one decision per block, one table per activation.
#pragma once

#include <functional>
#include <vector>

#include "nn/saved.h"

namespace stoa::nn {

enum class RecomputeLevel : std::uint8_t {
  kNone,       // keep everything
  kSelective,  // recompute norms and activation functions; keep GEMMs and attention
  kFull        // keep only the block's input
};
enum class RecomputeScope : std::uint8_t { kUniform, kBlock };

// activations_checkpoint_granularity / _method / _num_layers.
struct RecomputeOptions {
  RecomputeLevel level = RecomputeLevel::kNone;
  RecomputeScope scope = RecomputeScope::kUniform;  // with kFull
  std::int64_t layers =
      1;  // uniform: every n-th block input is kept; block: the first n blocks recompute, the rest nothing
  std::int64_t offloaded = 0;  // the first n blocks offload what they keep to host memory; not with kFull
};

struct BlockDecision {
  RecomputeLevel level = RecomputeLevel::kNone;
  bool keep_input = true;  // false: recomputed from the last kept input by the forward of the blocks between
  bool offload = false;    // what is kept leaves the device

  Keep kept() const { return offload ? Keep::kOffload : Keep::kSave; }
  Keep input() const { return keep_input ? kept() : Keep::kRecompute; }
};

// For a block that runs no backward pass.
inline BlockDecision keeps_nothing() { return {.level = RecomputeLevel::kFull, .keep_input = false}; }

// One decision per block of a chunk.
std::vector<BlockDecision> decide_recompute(const RecomputeOptions& options, std::int64_t blocks);
// The decision for every activation of a block.
std::function<Keep(const ActivationSpec&)> recompute_policy(const BlockDecision& decision);

}  // namespace stoa::nn
