#include "parallel/parallel_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/null/null_communicator.h"

namespace stoa::parallel {

std::string_view name_of(Group group) {
  constexpr std::array<std::string_view, kGroups> names{
      "tp", "cp", "ep", "dp", "pp", "dp-cp", "expert dp", "expert tp", "embedding", "model", "world"};
  return names[static_cast<int>(group)];
}

std::vector<int> members(const grid::RankGrid& grid, int rank, Group group) {
  switch (group) {
    case Group::kExpert:
      return grid.experts().group(rank, {Axis::kTensor, Axis::kExpert});
    case Group::kExpertData:
      return grid.experts().group(rank, {Axis::kData});
    case Group::kExpertTensor:
      return grid.experts().group(rank, {Axis::kTensor});
    case Group::kDataContext:
      return grid.group(rank, {Axis::kContext, Axis::kData});
    case Group::kModel:
      return grid.group(rank, {Axis::kTensor, Axis::kPipeline});
    case Group::kWorld:
      return grid.group(rank, {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline});
    case Group::kEmbedding: {
      const std::vector<int> stages = grid.group(rank, {Axis::kPipeline});
      std::vector<int> ends{stages.front()};
      if (stages.size() > 1) ends.push_back(stages.back());
      return std::find(ends.begin(), ends.end(), rank) != ends.end() ? ends : std::vector<int>();
    }
    default:
      return grid.group(rank, {static_cast<Axis>(group)});
  }
}

ParallelContext::ParallelContext(grid::RankGrid grid, int rank, Communicators communicators)
    : grid_(grid), rank_(rank), communicators_(std::move(communicators)) {
  require<InternalError>(rank >= 0 && rank < grid_.size(), "rank {} in a grid of {}", rank, grid_.size());
  for (int g = 0; g < kGroups; ++g) {
    const std::vector<int> ranks = members(grid_, rank, static_cast<Group>(g));
    const auto& group = communicators_[g];
    require<InternalError>(
        group ? group->size() == static_cast<int>(ranks.size()) && ranks[group->rank()] == rank
              : ranks.empty(),
        "the communicator of {} does not match the grid", name_of(static_cast<Group>(g)));
  }
}

ParallelContext ParallelContext::single(Device& device) {
  Communicators communicators;
  for (int g = 0; g < kGroups; ++g)
    communicators[g] = std::make_unique<comm::NullCommunicator>(
        fmt::format("{} group of rank 0", name_of(static_cast<Group>(g))), device);
  return ParallelContext(grid::RankGrid::single(), 0, std::move(communicators));
}

comm::Communicator& ParallelContext::along(Group group) const {
  require<InternalError>(belongs_to(group), "rank {} belongs to no {} group", rank_, name_of(group));
  return *communicators_[static_cast<int>(group)];
}

}  // namespace stoa::parallel
