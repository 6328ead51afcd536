// Times a schedule by events: when every action starts and ends if each lasts as long as it is reported to.
#pragma once

#include <vector>

#include "schedule/action.h"

namespace stoa::schedule {

// Any one unit. Times are of one chunk, so with two chunks per rank they are half of a stage's.
struct Durations {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double communication = 0;   // from the end of a computation to the start of the next rank's
  double backward = -1;       // of both gradients together; < 0: the sum of the two
  bool pairs_as_one = false;  // overlapped pairs send when both are done, else they run and send one by one
  std::vector<double> chunk_weight;  // factor per chunk on its computations (uneven stages); empty: 1
  // Measured: in place of all the times above but communication. Empty: none.
  struct ChunkTimes {
    double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  };
  std::vector<ChunkTimes> chunks;
  double of(const Action& action) const;
};

struct TimedAction {
  Action action;
  double start = 0, end = 0;
  int order = 0;  // position in one order of the whole step in which everything follows what it depends on
};

struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;  // computations only
  double makespan = 0;  // last end over ranks: what counts before a step that joins all ranks
  double span = 0;      // longest rank from its own first start: the measure of 2401.10241
  double busy = 0;      // most computation of any rank: makespan without a bubble
  double bubble() const { return makespan > 0 ? 1 - busy / makespan : 0; }
  double span_bubble() const { return span > 0 ? 1 - busy / span : 0; }
};

// ConfigError for durations that are not positive (communication, weight: negative) and for a schedule that
// deadlocks. Transfers, reductions and the optimizer step of a lowered schedule take no time: sends are
// buffered.
Timeline simulate(const Schedule& schedule, const Durations& durations = {});

// Most (chunk, microbatch) pairs of activations that a rank holds at once, from the start of the forward to
// the end of the weight gradient. One is a stage's activations divided by its chunks.
int activations_in_flight(const Schedule& schedule, int rank);

}  // namespace stoa::schedule
