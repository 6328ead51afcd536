// Proofs about a schedule before it runs.
#pragma once

#include "schedule/action.h"

namespace stoa::schedule {

// ConfigError unless every chunk runs every microbatch forward once and backward once (whole, or input then
// weight), each after what it depends on can have run, without deadlock; on the rank that holds the chunk;
// weight gradients in the order of microbatches; overlapped pairs of a forward and a backward of another
// microbatch. With transfers: every one has its other end, what comes from another rank is received before it
// is used, and the lists run to the end even if every transfer blocks both ranks until they meet.
void validate(const Schedule& schedule);

// Largest number of microbatches whose activations a chunk holds at once: slots to be allocated.
int microbatches_in_flight(const Schedule& schedule, int chunk);

}  // namespace stoa::schedule
