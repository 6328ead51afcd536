// The parallel context of a rank that is only planned: its communicators move no data and count what they
// would move.
#pragma once

#include "parallel/parallel_context.h"

namespace stoa::parallel {

// `device`: of the meta machine.
ParallelContext make_meta_context(const grid::RankGrid& grid, int rank, Device& device);

}  // namespace stoa::parallel
