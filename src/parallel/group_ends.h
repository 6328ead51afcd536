// A rank's communicators for its groups, before they become part of its context.
#pragma once

#include <memory>

#include "comm/nccl/nccl_rank.h"
#include "parallel/context_place.h"
#include "parallel/parallel_context.h"

namespace stoa::parallel {

struct GroupEnds {
  ParallelContext::Communicators tensors;  // none where members() is empty
  // By which the members compare what they ask for before any data moves; null where they do not.
  ParallelContext::Communicators control;
};

// The GPU of a rank that has one to itself.
struct OwnGpu {
  std::shared_ptr<comm::NcclRank> nccl;
  ContextPlace context;  // of any rank: which of them send each other tensors
};

// On every rank, its context. `gpu`: tensors on it then go by NCCL, which all ranks start together.
ParallelContext join(const grid::RankGrid& grid, int rank, GroupEnds ends, const OwnGpu* gpu = nullptr);

}  // namespace stoa::parallel
