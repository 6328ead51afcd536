// Beam searches of several sources at once, by the engine's passes.
#pragma once

#include <cstdint>
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
// not depend on the others. ConfigError: one has no room by itself; DataError: a source is too long;
// NumericsError: logits are not numbers.
void find_targets(PassModel& model, std::span<SourceSearch> searches);

}  // namespace stoa::infer
