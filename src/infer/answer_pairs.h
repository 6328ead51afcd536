// Targets of several sources at once.
#pragma once

#include <memory>

#include "infer/encoder_decoder_rank.h"
#include "infer/target_search.h"

namespace stoa::infer {

// Walks the searches, one for each source, until all have ended; those under way share the passes.
std::vector<FoundTarget> answer_pairs(EncoderDecoderRank& rank,
                                      const std::vector<std::vector<std::int32_t>>& sources,
                                      std::int32_t start,
                                      const std::vector<std::unique_ptr<TargetSearch>>& searches);

}  // namespace stoa::infer
