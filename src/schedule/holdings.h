// How many buffers of each kind a rank needs at once while it runs its list of actions.
#pragma once

#include <vector>

#include "schedule/action.h"

namespace stoa::schedule {

// Maxima; the first four by chunk (0 if another rank holds the chunk).
struct Holdings {
  std::vector<int>
      activations;           // microbatches between the start of their forward and the end of their backward
  std::vector<int> stashes;  // microbatches between input and weight gradient
  std::vector<int> inputs;   // outputs of the previous chunk that have not been used
  std::vector<int> gradients;  // output gradients from the next chunk that have not been used
  int batches = 0;             // microbatches that are in flight in any chunk
  int sends = 0;               // results computed but not sent yet, and one in flight

  // The maximum of both, element by element.
  void enlarge(const Holdings& other);
  bool covers(const Holdings& other) const;
};

// For a lowered schedule with a single copy of the model. A tensor is held from its receive, or from the
// computation on this rank that makes it, to the computation that reads it.
Holdings holdings_of(const Schedule& schedule, int rank);

}  // namespace stoa::schedule
