#include "parallel/meta_contexts.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/meta/meta_communicator.h"

namespace stoa::parallel {

ParallelContext make_meta_context(const grid::RankGrid& grid, int rank, Device& device) {
  if (grid.size() == 1) return ParallelContext::single(device);
  ParallelContext::Communicators communicators;
  for (int g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    const std::vector<int> ranks = members(grid, rank, group);
    if (ranks.empty()) continue;
    const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    communicators[g] =
        std::make_unique<comm::MetaCommunicator>(fmt::format("{} group of rank {}", name_of(group), rank),
                                                 static_cast<int>(ranks.size()), static_cast<int>(place));
  }
  return ParallelContext(grid, rank, std::move(communicators));
}

}  // namespace stoa::parallel
