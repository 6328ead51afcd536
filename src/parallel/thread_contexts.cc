#include "parallel/thread_contexts.h"

#include <fmt/format.h>

#include <string>

#include "device/device_transfer.h"
#include "device/native_stream.h"

namespace stoa::parallel {

std::vector<GroupEnds> make_ends(comm::ThreadWorld& world, const grid::RankGrid& grid, bool check) {
  require<ConfigError>(world.size() == grid.size(),
                       "the degrees tp {} x cp {} x ep {} x dp {} x pp {} need {} ranks, the world has {}",
                       grid.degree(Axis::kTensor), grid.degree(Axis::kContext), grid.degree(Axis::kExpert),
                       grid.degree(Axis::kData), grid.degree(Axis::kPipeline), grid.size(), world.size());
  std::vector<GroupEnds> ends(static_cast<std::size_t>(grid.size()));
  for (std::size_t g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    for (int rank = 0; rank < grid.size(); ++rank) {
      if (ends[static_cast<std::size_t>(rank)].tensors[g])
        continue;  // its group was made with the first member
      const std::vector<int> ranks = members(grid, rank, group);
      if (ranks.empty()) continue;
      auto tensors = world.create(std::string(name_of(group)), ranks);
      for (std::size_t m = 0; m < ranks.size(); ++m)
        ends[static_cast<std::size_t>(ranks[m])].tensors[g] = std::move(tensors[m]);
      if (!check) continue;
      auto control = world.create(fmt::format("{} control", name_of(group)), ranks);
      for (std::size_t m = 0; m < ranks.size(); ++m)
        ends[static_cast<std::size_t>(ranks[m])].control[g] = std::move(control[m]);
    }
  }
  return ends;
}

std::vector<ParallelContext> make_contexts(comm::ThreadWorld& world, const grid::RankGrid& grid, bool check) {
  std::vector<ParallelContext> contexts;
  for (GroupEnds& ends : make_ends(world, grid, check))
    contexts.push_back(join(grid, static_cast<int>(contexts.size()), std::move(ends)));
  return contexts;
}

std::unique_ptr<Stream> share_device(comm::ThreadWorld& world, int rank, Device& device) {
  auto* const shared = dynamic_cast<SharableDevice*>(&device);
  if (!shared) return nullptr;
  auto side = device.create_stream();
  require<ConfigError>(
      !records(*side),
      "CUDA option graphs: ranks share the {}, where the host coordinates their exchanges during the step, "
      "which a graph cannot contain. Use a GPU for each rank, one rank, or no graphs",
      device.name());
  world.share_device(rank, {device.kind(), &shared->transfer(), side.get()});
  return side;
}

}  // namespace stoa::parallel
