#include "parallel/group_ends.h"

#include "comm/check/check_communicator.h"
#include "parallel/routes.h"

namespace stoa::parallel {

ParallelContext join(const grid::RankGrid& grid, int rank, GroupEnds ends, const OwnGpu* gpu) {
  for (int g = 0; g < kGroups; ++g) {
    auto& end = ends.tensors[static_cast<std::size_t>(g)];
    auto& control = ends.control[static_cast<std::size_t>(g)];
    if (end && gpu)
      end = comm::make_nccl_communicator(gpu->nccl, std::move(end),
                                         routes_of(grid, static_cast<Group>(g), gpu->context));
    if (end && control)
      end = std::make_unique<comm::CheckCommunicator>(std::move(end), std::move(control), gpu != nullptr);
  }
  return ParallelContext(grid, rank, std::move(ends.tensors));
}

}  // namespace stoa::parallel
