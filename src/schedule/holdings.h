// What a rank holds at once while it walks its list: the numbers of buffers that a run declares.
#pragma once

#include <vector>

#include "schedule/action.h"

namespace stoa::schedule {

// Most at once, by chunk for the first four (0 where another rank holds the chunk).
struct Holdings {
  std::vector<int>
      activations;           // microbatches between the start of their forward and the end of their backward
  std::vector<int> stashes;  // microbatches between input and weight gradient
  std::vector<int> inputs;   // outputs of the chunk before that have not been used
  std::vector<int> gradients;  // of the output, from the chunk after, that have not been used
  int batches = 0;             // microbatches that any chunk still works on
  int sends = 0;               // results on their way out: all that wait to be sent, and one in flight

  // No smaller than either.
  void enlarge(const Holdings& other);
  bool covers(const Holdings& other) const;
};

// Of a lowered schedule of one copy of the model. What arrives is held from its receive, or from the computation that makes it on this
// rank, to the computation that reads it.
Holdings holdings_of(const Schedule& schedule, int rank);

}  // namespace stoa::schedule
