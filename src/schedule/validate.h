// Proofs about a schedule before it runs.
#pragma once

#include "schedule/action.h"

namespace stoa::schedule {

// ConfigError unless every chunk runs every microbatch forward once and backward once (whole, or input then
// weight; not at all before placement.trained_from), on the rank that holds it, after its dependencies and
// without deadlock; weight gradients are in microbatch order; overlapped pairs are a forward and a backward
// of different microbatches. With transfers: each has both ends, what is received arrives before it is used,
// and the lists run to completion even if every transfer blocks both ranks until both take part.
void validate(const Schedule& schedule);

// Largest number of microbatches whose activations a chunk holds at once: slots to be allocated.
int microbatches_in_flight(const Schedule& schedule, int chunk);

}  // namespace stoa::schedule
