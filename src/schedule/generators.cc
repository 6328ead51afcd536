#include "schedule/generators.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::schedule {
namespace {

Schedule empty_schedule(std::string name, int stages, int microbatches) {
  require<ConfigError>(stages >= 1 && microbatches >= 1, "a {} schedule needs at least 1 stage and 1 microbatch, got {} and {}",
                       name, stages, microbatches);
  return {std::move(name), Placement::one_chunk_per_rank(stages), microbatches, std::vector<std::vector<Action>>(stages)};
}

bool is_backward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput || kind == ActionKind::kBackwardWeight;
}

}  // namespace

Schedule gpipe(int stages, int microbatches) {
  Schedule schedule = empty_schedule("gpipe", stages, microbatches);
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    for (int m = 0; m < microbatches; ++m) list.push_back({ActionKind::kForward, rank, m});
    for (int m = 0; m < microbatches; ++m) list.push_back({ActionKind::kBackward, rank, m});
  }
  return schedule;
}

Schedule one_forward_one_backward(int stages, int microbatches) {
  Schedule schedule = empty_schedule("1f1b", stages, microbatches);
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    const int warmup = std::min(microbatches, stages - rank - 1);
    for (int m = 0; m < warmup; ++m) list.push_back({ActionKind::kForward, rank, m});
    for (int m = warmup; m < microbatches; ++m) {
      list.push_back({ActionKind::kForward, rank, m});
      list.push_back({ActionKind::kBackward, rank, m - warmup});
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) list.push_back({ActionKind::kBackward, rank, m});
  }
  return schedule;
}

Schedule lower(Schedule compute) {
  require<ConfigError>(compute.placement.ranks() == 1, "schedule '{}' is for {} pipeline ranks; this version runs 1",
                       compute.name, compute.placement.ranks());
  auto& list = compute.ranks[0];
  for (int chunk = 0; chunk < compute.placement.chunks(); ++chunk) {
    auto last = list.end();
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->chunk == chunk && is_backward(it->kind)) last = it;
    require<InternalError>(last != list.end(), "chunk {} has no backward pass", chunk);
    list.insert(last + 1, {ActionKind::kReduceGradients, chunk, -1});
  }
  list.push_back({ActionKind::kStep, -1, -1});
  return compute;
}

}  // namespace stoa::schedule
