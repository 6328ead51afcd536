// The parallel context of a rank that is a process.
#pragma once

#include "comm/processes/process_world.h"
#include "parallel/group_ends.h"

namespace stoa::parallel {

// On every rank of the world, which outlives it. ConfigError when the world's size is not the grid's.
// `check`: as in make_contexts(). `gpu`: as in join().
ParallelContext make_process_context(comm::ProcessWorld& world, const grid::RankGrid& grid,
                                     bool check = false, const OwnGpu* gpu = nullptr);

}  // namespace stoa::parallel
