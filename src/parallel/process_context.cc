#include "parallel/process_context.h"

#include <fmt/format.h>

#include <string>

namespace stoa::parallel {

static_assert(2 * kGroups <= comm::ProcessWorld::kGroups, "a number for each kind of group and its control");

ParallelContext make_process_context(comm::ProcessWorld& world, const grid::RankGrid& grid, bool check,
                                     const OwnGpu* gpu) {
  require<ConfigError>(world.size() == grid.size(), "a layout of {} ranks in a world of {}", grid.size(),
                       world.size());
  GroupEnds ends;
  for (std::size_t g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    const std::vector<int> ranks = members(grid, world.rank(), group);
    if (ranks.empty()) continue;
    const int number = 2 * static_cast<int>(g);
    ends.tensors[g] = world.create(number, std::string(name_of(group)), ranks);
    if (check) ends.control[g] = world.create(number + 1, fmt::format("{} control", name_of(group)), ranks);
  }
  return join(grid, world.rank(), std::move(ends), gpu);
}

}  // namespace stoa::parallel
