// Whether ranks that hold the same weights still do: faulty memory or a fault of the program shows here
// before it shows in the loss.
#pragma once

#include <cstdint>

#include "run/training_rank.h"

namespace stoa::run {

// Compares a hash of all weights among the ranks of a data-parallel group. NumericsError names the ranks that
// differ from most others; `step`: the last one done. Nothing where every rank holds another part (ZeRO 3).
void compare_replicas(TrainingRank& rank, std::int64_t step);

}  // namespace stoa::run
