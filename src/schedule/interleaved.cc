// Schedules with several chunks per rank, placed round robin.
#include <algorithm>

#include "base/error.h"
#include "schedule/generators.h"

namespace stoa::schedule {
namespace {

Schedule empty_interleaved(std::string name, int stages, int chunks, int microbatches) {
  require<ConfigError>(
      stages >= 1 && chunks >= 1 && microbatches >= 1,
      "a {} schedule needs at least 1 stage, 1 chunk per rank and 1 microbatch, got {}, {} and {}", name,
      stages, chunks, microbatches);
  return {std::move(name), ChunkPlacement::interleaved(stages, chunks), microbatches,
          std::vector<std::vector<Action>>(stages)};
}

struct Turn {
  int local_chunk, microbatch;
};

// Order of forwards on a rank: group by group, in a group chunk by chunk.
std::vector<Turn> forward_table(int chunks, int microbatches, int group) {
  std::vector<Turn> table;
  for (int first = 0; first < microbatches; first += group)
    for (int c = 0; c < chunks; ++c)
      for (int m = first; m < std::min(first + group, microbatches); ++m) table.push_back({c, m});
  return table;
}

// Megatron's rule: stages <= group <= microbatches, and the last group is full or not shorter than the
// stages.
int checked_group(std::string_view name, int stages, int chunks, int microbatches, int group) {
  if (group == 0) group = stages;
  if (chunks == 1) return group;
  require<ConfigError>(group >= stages,
                       "schedule '{}': groups of {} microbatches for {} stages: use at least {}", name, group,
                       stages, stages);
  const auto valid = [&](int m) { return m >= group && (m % group == 0 || m % group >= stages); };
  if (!valid(microbatches)) {
    int below = microbatches, above = microbatches;
    while (below > 0 && !valid(below)) --below;
    while (!valid(above)) ++above;
    const std::string choice = below > 0 ? fmt::format("{} or {}", below, above) : std::to_string(above);
    fail<ConfigError>(
        "schedule '{}' cannot run {} microbatch{} over {} stages in groups of {} (a last group must be full "
        "or have at least {}): use {} microbatches",
        name, microbatches, microbatches == 1 ? "" : "es", stages, group, stages, choice);
  }
  return group;
}

}  // namespace

Schedule interleaved(int stages, int chunks, int microbatches, int group) {
  Schedule schedule = empty_interleaved("interleaved", stages, chunks, microbatches);
  group = checked_group(schedule.name, stages, chunks, microbatches, group);
  const auto table = forward_table(chunks, microbatches, group);
  const int total = microbatches * chunks;
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    const auto forward = [&](int k) {
      list.push_back({ActionKind::kForward, table[k].local_chunk * stages + rank, table[k].microbatch});
    };
    const auto backward = [&](int k) {
      list.push_back(
          {ActionKind::kBackward, (chunks - 1 - table[k].local_chunk) * stages + rank, table[k].microbatch});
    };
    // With one chunk this is plain 1F1B, whose warm-up needs no second round.
    const int warmup =
        std::min(total, chunks == 1 ? stages - 1 - rank : (chunks - 1) * group + 2 * (stages - 1 - rank));
    for (int k = 0; k < warmup; ++k) forward(k);
    for (int k = warmup; k < total; ++k) {
      forward(k);
      backward(k - warmup);
    }
    for (int k = total - warmup; k < total; ++k) backward(k);
  }
  return schedule;
}

Schedule breadth_first(int stages, int chunks, int microbatches) {
  Schedule schedule = empty_interleaved("bfs", stages, chunks, microbatches);
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    for (int c = 0; c < chunks; ++c)
      for (int m = 0; m < microbatches; ++m) list.push_back({ActionKind::kForward, c * stages + rank, m});
    for (int c = chunks - 1; c >= 0; --c)
      for (int m = 0; m < microbatches; ++m) list.push_back({ActionKind::kBackward, c * stages + rank, m});
  }
  return schedule;
}

Schedule interleaved_zero_bubble(int stages, int chunks, int microbatches, int group) {
  Schedule schedule = empty_interleaved("interleaved-zb", stages, chunks, microbatches);
  group = checked_group(schedule.name, stages, chunks, microbatches, group);
  const auto table = forward_table(chunks, microbatches, group);
  const int total = microbatches * chunks;
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    const auto forward = [&](int k) {
      list.push_back({ActionKind::kForward, table[k].local_chunk * stages + rank, table[k].microbatch});
    };
    const auto backward = [&](ActionKind kind, int k) {
      list.push_back({kind, (chunks - 1 - table[k].local_chunk) * stages + rank, table[k].microbatch});
    };
    const int warmup = std::min(total, (chunks - 1) * group + stages - 1 - rank);
    for (int k = 0; k < warmup; ++k) forward(k);
    for (int k = 0; k < total; ++k) {
      if (warmup + k < total) forward(warmup + k);
      backward(ActionKind::kBackwardInput, k);
      if (k >= rank) backward(ActionKind::kBackwardWeight, k - rank);
    }
    for (int k = std::max(0, total - rank); k < total; ++k) backward(ActionKind::kBackwardWeight, k);
  }
  return schedule;
}

}  // namespace stoa::schedule
