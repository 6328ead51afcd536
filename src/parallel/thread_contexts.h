// The parallel contexts of ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "comm/threads/thread_world.h"
#include "parallel/group_ends.h"

namespace stoa::parallel {

// Per rank of the grid its ends of every group ("tp group of rank 5"); the world outlives them. ConfigError
// when the world's size is not the grid's. `check`: with control.
std::vector<GroupEnds> make_ends(comm::ThreadWorld& world, const grid::RankGrid& grid, bool check = false);
// The contexts of ranks in host memory, or on a device that they share.
std::vector<ParallelContext> make_contexts(comm::ThreadWorld& world, const grid::RankGrid& grid,
                                           bool check = false);

// Called by the rank's thread before its first operation: where ranks can share `device`, tensors in its
// memory are moved there. Returns the stream on which this rank moves them, which outlives its operations;
// null where the device is not to be shared.
std::unique_ptr<Stream> share_device(comm::ThreadWorld& world, int rank, Device& device);

}  // namespace stoa::parallel
