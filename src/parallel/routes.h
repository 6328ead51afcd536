// Which members of a group send tensors to each other: NCCL opens these routes when a run starts.
#pragma once

#include <vector>

#include "comm/nccl/nccl_rank.h"
#include "parallel/context_place.h"
#include "parallel/parallel_context.h"

namespace stoa::parallel {

// The ring in which a rank's keys and values go around: members of its context-parallel group.
struct ContextRing {
  int size = 1, next = 0, previous = 0;
};
ContextRing context_ring(const ContextPlace& place);

// Directed routes. Stages of a pipeline: between neighbours and between the last and the first, both ways.
// Context: around the rings of `context`, the place of any rank. Other groups use only collectives: none.
std::vector<comm::Route> routes_of(const grid::RankGrid& grid, Group group, const ContextPlace& context);

}  // namespace stoa::parallel
