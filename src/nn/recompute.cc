#include "nn/recompute.h"

#include <algorithm>

namespace stoa::nn {

std::vector<BlockDecision> decide_recompute(const RecomputeOptions& options, std::int64_t blocks) {
  std::vector<BlockDecision> out(static_cast<std::size_t>(blocks), {options.level});
  require<InternalError>(options.offloaded == 0 || options.level != RecomputeLevel::kFull,
                         "recomputed blocks have nothing to offload");
  for (std::int64_t i = 0; i < std::min(options.offloaded, blocks); ++i)
    out[static_cast<std::size_t>(i)].offload = true;
  if (options.level != RecomputeLevel::kFull) return out;
  require<ConfigError>(options.layers >= (options.scope == RecomputeScope::kUniform ? 1 : 0),
                       "activations_checkpoint_num_layers must be at least 1, got {}", options.layers);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t index = static_cast<std::int64_t>(i);
    if (options.scope == RecomputeScope::kUniform)
      out[i].keep_input = index % options.layers == 0;
    else if (index >= options.layers)
      out[i].level = RecomputeLevel::kNone;
  }
  return out;
}

std::function<Keep(const ActivationSpec&)> recompute_policy(const BlockDecision& decision) {
  return [level = decision.level, kept = decision.kept()](const ActivationSpec& spec) {
    if (spec.producer == Producer::kCast) return Keep::kRecompute;
    switch (level) {
      case RecomputeLevel::kNone:
        return spec.producer == Producer::kBranch ? Keep::kRecompute : kept;
      case RecomputeLevel::kSelective:
        return spec.producer == Producer::kNorm || spec.producer == Producer::kActivation ||
                       spec.producer == Producer::kSum
                   ? Keep::kRecompute
                   : kept;
      case RecomputeLevel::kFull:
        return Keep::kRecompute;
    }
    return kept;
  };
}

}  // namespace stoa::nn
