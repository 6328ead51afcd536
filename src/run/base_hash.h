// A hash of the weights that a run must not change: those of the model below an adapter.
#pragma once

#include <cstdint>

#include "run/training_rank.h"

namespace stoa::run {

// The hash of all frozen parameters as they are held, over all ranks: a sum of one term for each canonical
// element, so that it is the same in every layout. Collective.
std::uint64_t hash_of_frozen(TrainingRank& rank);

}  // namespace stoa::run
