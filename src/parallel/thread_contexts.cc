#include "parallel/thread_contexts.h"

#include <string>

namespace stoa::parallel {

std::vector<ParallelContext> make_contexts(comm::ThreadWorld& world, const grid::RankGrid& grid) {
  require<ConfigError>(world.size() == grid.size(),
                       "the degrees tp {} x cp {} x ep {} x dp {} x pp {} need {} ranks, the world has {}",
                       grid.degree(Axis::kTensor), grid.degree(Axis::kContext), grid.degree(Axis::kExpert),
                       grid.degree(Axis::kData), grid.degree(Axis::kPipeline), grid.size(), world.size());
  using Communicators = std::array<std::unique_ptr<comm::Communicator>, grid::kAxes>;
  std::vector<Communicators> communicators(static_cast<std::size_t>(grid.size()));
  for (int a = 0; a < grid::kAxes; ++a) {
    const Axis axis = static_cast<Axis>(a);
    for (int rank = 0; rank < grid.size(); ++rank) {
      if (grid.coordinate(rank, axis) != 0) continue;  // its group was made with the first member
      const std::vector<int> members = grid.group(rank, {axis});
      auto ends = world.create(std::string(name_of(axis)), members);
      for (std::size_t m = 0; m < members.size(); ++m) communicators[members[m]][a] = std::move(ends[m]);
    }
  }
  std::vector<ParallelContext> contexts;
  for (int rank = 0; rank < grid.size(); ++rank)
    contexts.emplace_back(grid, rank, std::move(communicators[rank]));
  return contexts;
}

}  // namespace stoa::parallel
