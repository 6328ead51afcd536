// Beam searches of several sources at once, by the engine's passes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/beam_search.h"
#include "infer/engine/pass_plan.h"

namespace stoa::infer {

struct SourceSearch {
  std::vector<std::int32_t> source;  // ids
  BeamSearch search;
};

// Walks the searches until all have ended; as many as have room share the passes. What a search finds does
// not depend on the others. `at`: called after every pass with the number of searches that have ended, those
// under way by the share of their longest length. ConfigError: one has no room by itself; DataError: a source
// is too long; NumericsError: logits are not numbers.
void find_targets(PassModel& model, std::span<SourceSearch> searches,
                  const std::function<void(double searched)>& at = {});

}  // namespace stoa::infer
