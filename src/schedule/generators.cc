#include "schedule/generators.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::schedule {
namespace {

Schedule empty_schedule(std::string name, int stages, int microbatches) {
  require<ConfigError>(stages >= 1 && microbatches >= 1,
                       "a {} schedule needs at least 1 stage and 1 microbatch, got {} and {}", name, stages,
                       microbatches);
  return {std::move(name), ChunkPlacement::one_chunk_per_rank(stages), microbatches,
          std::vector<std::vector<Action>>(stages)};
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
    for (int m = microbatches - warmup; m < microbatches; ++m)
      list.push_back({ActionKind::kBackward, rank, m});
  }
  return schedule;
}

Schedule zero_bubble_h1(int stages, int microbatches) {
  Schedule schedule = empty_schedule("zb-h1", stages, microbatches);
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    const int warmup = std::min(microbatches, stages - rank - 1);
    for (int m = 0; m < warmup; ++m) list.push_back({ActionKind::kForward, rank, m});
    for (int m = 0; m < microbatches; ++m) {
      if (warmup + m < microbatches) list.push_back({ActionKind::kForward, rank, warmup + m});
      list.push_back({ActionKind::kBackwardInput, rank, m});
      if (m >= rank) list.push_back({ActionKind::kBackwardWeight, rank, m - rank});
    }
    for (int m = std::max(0, microbatches - rank); m < microbatches; ++m)
      list.push_back({ActionKind::kBackwardWeight, rank, m});
  }
  return schedule;
}

Schedule zero_bubble_h2(int stages, int microbatches) {
  Schedule schedule = empty_schedule("zb-h2", stages, microbatches);
  for (int rank = 0; rank < stages; ++rank) {
    auto& list = schedule.ranks[rank];
    const int warmup = std::min(microbatches, 2 * (stages - rank) - 1);
    for (int m = 0; m < warmup; ++m) list.push_back({ActionKind::kForward, rank, m});
    for (int m = 0; m < microbatches; ++m) {
      list.push_back({ActionKind::kBackwardInput, rank, m});
      if (m >= 2 * rank) list.push_back({ActionKind::kBackwardWeight, rank, m - 2 * rank});
      if (warmup + m < microbatches) list.push_back({ActionKind::kForward, rank, warmup + m});
    }
    for (int m = std::max(0, microbatches - 2 * rank); m < microbatches; ++m)
      list.push_back({ActionKind::kBackwardWeight, rank, m});
  }
  return schedule;
}

namespace {

void want_chunks(const ScheduleRequest& r, int chunks) {
  require<ConfigError>(r.chunks == chunks, "schedule '{}' needs {} chunk{} per rank, got {}: use --chunks {}",
                       r.name, chunks, chunks == 1 ? "" : "s", r.chunks, chunks);
}

using Generator = Schedule (*)(const ScheduleRequest&);
struct NamedGenerator {
  std::string_view name;
  int chunks;  // per rank where the schedule fixes it, else 0
  Generator generate;
  ChunkPlacement (*place)(int stages) = nullptr;  // null: round robin
};

constexpr std::array<NamedGenerator, 12> kGenerators{{
    {"gpipe", 1, [](const ScheduleRequest& r) { return gpipe(r.stages, r.microbatches); }},
    {"1f1b", 1, [](const ScheduleRequest& r) { return one_forward_one_backward(r.stages, r.microbatches); }},
    {"interleaved", 0,
     [](const ScheduleRequest& r) { return interleaved(r.stages, r.chunks, r.microbatches, r.group); }},
    {"bfs", 0, [](const ScheduleRequest& r) { return breadth_first(r.stages, r.chunks, r.microbatches); }},
    {"zb-h1", 1, [](const ScheduleRequest& r) { return zero_bubble_h1(r.stages, r.microbatches); }},
    {"zb-h2", 1, [](const ScheduleRequest& r) { return zero_bubble_h2(r.stages, r.microbatches); }},
    {"zb-v", 2, [](const ScheduleRequest& r) { return zero_bubble_v(r.stages, r.microbatches); },
     ChunkPlacement::v_shaped},
    {"interleaved-zb", 0,
     [](const ScheduleRequest& r) {
       return interleaved_zero_bubble(r.stages, r.chunks, r.microbatches, r.group);
     }},
    {"dualpipev", 2, [](const ScheduleRequest& r) { return dual_pipe_v(r.stages, r.microbatches); },
     ChunkPlacement::v_shaped},
    {"dualpipe", 2, [](const ScheduleRequest& r) { return dual_pipe(r.stages, r.microbatches); },
     ChunkPlacement::two_ways},
    {"v-half", 2, [](const ScheduleRequest& r) { return v_half(r.stages, r.microbatches); },
     ChunkPlacement::v_shaped},
    {"v-min", 2, [](const ScheduleRequest& r) { return v_min(r.stages, r.microbatches); },
     ChunkPlacement::v_shaped},
}};

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const NamedGenerator& entry : kGenerators) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> run_schedule_names() {
  std::vector<std::string> names;
  for (const NamedGenerator& entry : kGenerators)
    if (entry.place != ChunkPlacement::two_ways) names.emplace_back(entry.name);
  return names;
}

namespace {

// The generator of a request, whose number of chunks is settled.
const NamedGenerator& entry_of(ScheduleRequest& request) {
  const auto names = schedule_names();
  const auto entry = std::find_if(kGenerators.begin(), kGenerators.end(),
                                  [&](const NamedGenerator& e) { return e.name == request.name; });
  require<ConfigError>(entry != kGenerators.end(), "'{}' is not a schedule{}: expected one of {}",
                       request.name, did_you_mean(request.name, names), fmt::join(names, ", "));
  if (request.chunks == 0) request.chunks = entry->chunks ? entry->chunks : 2;
  if (entry->chunks) want_chunks(request, entry->chunks);
  return *entry;
}

}  // namespace

ChunkPlacement placement_of(ScheduleRequest request) {
  const NamedGenerator& entry = entry_of(request);
  return entry.place ? entry.place(request.stages)
                     : ChunkPlacement::interleaved(request.stages, request.chunks);
}

Schedule forward_only(const ChunkPlacement& placement, int microbatches) {
  const int ranks = placement.ranks();
  Schedule schedule{"forward only", placement, microbatches, std::vector<std::vector<Action>>(ranks)};
  for (int first = 0; first < microbatches; first += ranks)
    for (int c = 0; c < placement.chunks(); ++c)
      for (int m = first; m < std::min(first + ranks, microbatches); ++m)
        schedule.ranks[placement.rank_of_chunk[c]].push_back({ActionKind::kForward, c, m});
  return schedule;
}

Schedule generate(ScheduleRequest request) {
  const NamedGenerator* entry = &entry_of(request);
  require<ConfigError>(entry->chunks == 0 || request.group == 0,
                       "schedule '{}' has no microbatch groups: leave out --group", request.name);
  require<ConfigError>(
      static_cast<long long>(request.stages) * request.chunks * request.microbatches <= kMaxScheduleItems,
      "{} stages, {} chunks and {} microbatches are more than {} items: use fewer microbatches",
      request.stages, request.chunks, request.microbatches, kMaxScheduleItems);
  return entry->generate(request);
}

}  // namespace stoa::schedule
