// Which activations are kept for backward, which of these wait in the host's memory, and which are made
// again: one decision per block, one table per activation.
#pragma once

#include <functional>
#include <vector>

#include "nn/saved.h"

namespace stoa::nn {

enum class RecomputeLevel : std::uint8_t {
  kNone,       // keep everything
  kSelective,  // make norms and activation functions again; keep matrix products and attention
  kFull        // keep the input of the block alone
};
enum class RecomputeScope : std::uint8_t { kUniform, kBlock };

// activations_checkpoint_granularity / _method / _num_layers.
struct RecomputeOptions {
  RecomputeLevel level = RecomputeLevel::kNone;
  RecomputeScope scope = RecomputeScope::kUniform;  // with kFull
  std::int64_t layers =
      1;  // uniform: every n-th block input is kept; block: the first n blocks recompute, the rest none
  std::int64_t offloaded = 0;  // what the first n blocks keep waits in the host's memory; not with kFull
};

struct BlockDecision {
  RecomputeLevel level = RecomputeLevel::kNone;
  bool keep_input = true;  // false: forward of the blocks before it, from the last kept input, makes it again
  bool offload = false;    // what is kept leaves the device

  Keep kept() const { return offload ? Keep::kOffload : Keep::kSave; }
  Keep input() const { return keep_input ? kept() : Keep::kRecompute; }
};

// One decision per block of a chunk.
std::vector<BlockDecision> decide_recompute(const RecomputeOptions& options, std::int64_t blocks);
// The decision for every activation of a block.
std::function<Keep(const ActivationSpec&)> recompute_policy(const BlockDecision& decision);

}  // namespace stoa::nn
