// Which layers of a rank are offloaded, and the memory that they pass through.
#pragma once

#include <memory>
#include <vector>

#include "model/chunk.h"
#include "model/offload_config.h"
#include "run/layout.h"

namespace stoa::run {

// By chunk, in model order: its first this many layers. ConfigError where more are asked for than any stage
// has.
std::vector<std::int64_t> offloaded_layers(const std::vector<PlacedChunk>& chunks,
                                           const model::OffloadConfig& config);

// For the chunks of one rank.
std::unique_ptr<nn::OffloadRing> make_offload_ring(Arena& arena,
                                                   const std::vector<std::unique_ptr<model::Chunk>>& chunks);

}  // namespace stoa::run
