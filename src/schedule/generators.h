// Generators emit the compute actions of a step; lower() adds what surrounds them.
#pragma once

#include "schedule/action.h"

namespace stoa::schedule {

// All forwards, then all backwards (Huang et al. 2019).
Schedule gpipe(int stages, int microbatches);
// One forward, one backward after a warm-up of stages - rank - 1 forwards (Narayanan et al. 2021, 2104.04473 section 2.2).
Schedule one_forward_one_backward(int stages, int microbatches);

// Adds the reduction of gradients after a chunk's last backward and the optimizer step at the end. Placements on one rank
// only: sends and receives do not exist yet.
Schedule lower(Schedule compute);

}  // namespace stoa::schedule
