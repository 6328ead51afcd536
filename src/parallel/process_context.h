// The parallel context of a rank that is a process.
#pragma once

#include "comm/nccl/nccl_rank.h"
#include "comm/processes/process_world.h"
#include "parallel/parallel_context.h"

namespace stoa::parallel {

// On every rank of the world, which outlives it. ConfigError when the world's size is not the grid's.
// `check`: as in make_contexts(). `nccl`: the rank's GPU, whose tensors then go by NCCL.
ParallelContext make_process_context(comm::ProcessWorld& world, const grid::RankGrid& grid,
                                     bool check = false,
                                     const std::shared_ptr<comm::NcclRank>& nccl = nullptr);

}  // namespace stoa::parallel
