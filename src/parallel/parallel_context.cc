#include "parallel/parallel_context.h"

#include <fmt/format.h>

#include "comm/null/null_communicator.h"

namespace stoa::parallel {

ParallelContext::ParallelContext(grid::RankGrid grid, int rank,
                                 std::array<std::unique_ptr<comm::Communicator>, grid::kAxes> communicators)
    : grid_(grid), rank_(rank), communicators_(std::move(communicators)) {
  require<InternalError>(rank >= 0 && rank < grid_.size(), "rank {} in a grid of {}", rank, grid_.size());
  for (int a = 0; a < grid::kAxes; ++a)
    require<InternalError>(
        communicators_[a] && communicators_[a]->size() == grid_.degree(static_cast<Axis>(a)),
        "the communicator of {} does not match the grid", name_of(static_cast<Axis>(a)));
}

ParallelContext ParallelContext::single(Device& device) {
  std::array<std::unique_ptr<comm::Communicator>, grid::kAxes> communicators;
  for (int a = 0; a < grid::kAxes; ++a)
    communicators[a] = std::make_unique<comm::NullCommunicator>(
        fmt::format("{} group of rank 0", name_of(static_cast<Axis>(a))), device);
  return ParallelContext(grid::RankGrid::single(), 0, std::move(communicators));
}

}  // namespace stoa::parallel
