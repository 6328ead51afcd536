#include "parallel/process_context.h"

#include <fmt/format.h>

#include <string>

#include "comm/check/check_communicator.h"

namespace stoa::parallel {

ParallelContext make_process_context(comm::ProcessWorld& world, const grid::RankGrid& grid, bool check,
                                     const std::shared_ptr<comm::NcclRank>& nccl) {
  require<ConfigError>(world.size() == grid.size(), "a layout of {} ranks in a world of {}", grid.size(),
                       world.size());
  ParallelContext::Communicators communicators;
  for (int g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    const std::vector<int> ranks = members(grid, world.rank(), group);
    if (ranks.empty()) continue;
    communicators[g] = world.create(std::string(name_of(group)), ranks);
    if (nccl)
      communicators[g] = comm::make_nccl_communicator(nccl, std::move(communicators[g]),
                                                      group == Group::kPipeline || group == Group::kContext);
    if (check)
      communicators[g] = std::make_unique<comm::CheckCommunicator>(
          std::move(communicators[g]), world.create(fmt::format("{} control", name_of(group)), ranks));
  }
  return ParallelContext(grid, world.rank(), std::move(communicators));
}

}  // namespace stoa::parallel
