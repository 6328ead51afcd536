// Which members of a group send each other tensors: between several GPUs these ways are opened at the start.
#pragma once

#include <vector>

#include "comm/nccl/route.h"
#include "parallel/context_place.h"
#include "parallel/parallel_context.h"

namespace stoa::parallel {

// The ring in which a rank's keys and values go around: members of its context-parallel group.
struct ContextRing {
  int size = 1, next = 0, previous = 0;
};
ContextRing context_ring(const ContextPlace& place);

// Each way once. Stages of a pipeline: those beside each other, and the last and the first, both ways.
// Context: around the rings of `context`, the place of any rank. Other groups have collectives alone: none.
std::vector<comm::Route> routes_of(const grid::RankGrid& grid, Group group, const ContextPlace& context);

}  // namespace stoa::parallel
