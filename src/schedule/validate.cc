#include "schedule/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace stoa::schedule {
namespace {

// What has been done: (kind, chunk, microbatch), with a whole backward counted as both halves.
class Done {
 public:
  bool has(ActionKind kind, int chunk, int microbatch) const { return done_.contains(key(kind, chunk, microbatch)); }
  void add(const Action& a, const Schedule& schedule) {
    const auto insert = [&](ActionKind kind) {
      require<ConfigError>(done_.insert(key(kind, a.chunk, a.microbatch)).second,
                           "schedule '{}' does {}{}.{} twice", schedule.name, name_of(kind), a.chunk, a.microbatch);
    };
    if (a.kind == ActionKind::kBackward) {
      insert(ActionKind::kBackwardInput);
      insert(ActionKind::kBackwardWeight);
    } else {
      insert(a.kind);
    }
  }

 private:
  static std::int64_t key(ActionKind kind, int chunk, int microbatch) {
    return (static_cast<std::int64_t>(kind) << 56) | (static_cast<std::int64_t>(chunk) << 32) | microbatch;
  }
  std::set<std::int64_t> done_;
};

bool is_compute(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }

bool ready(const Action& a, const Done& done, int last_chunk) {
  switch (a.kind) {
    case ActionKind::kForward: return a.chunk == 0 || done.has(ActionKind::kForward, a.chunk - 1, a.microbatch);
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return done.has(ActionKind::kForward, a.chunk, a.microbatch) &&
             (a.chunk == last_chunk || done.has(ActionKind::kBackwardInput, a.chunk + 1, a.microbatch));
    case ActionKind::kBackwardWeight: return done.has(ActionKind::kBackwardInput, a.chunk, a.microbatch);
    default: return true;
  }
}

}  // namespace

void validate(const Schedule& schedule) {
  const int chunks = schedule.placement.chunks();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const auto& a : schedule.ranks[rank])
      if (is_compute(a.kind))
        require<ConfigError>(a.chunk >= 0 && a.chunk < chunks && a.microbatch >= 0 && a.microbatch < schedule.microbatches &&
                                 schedule.placement.rank_of_chunk[a.chunk] == static_cast<int>(rank),
                             "schedule '{}': rank {} runs {}{}.{}, which is not its own", schedule.name, rank, name_of(a.kind),
                             a.chunk, a.microbatch);
  Done done;
  std::vector<std::size_t> next(schedule.ranks.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const auto& list = schedule.ranks[rank];
      while (next[rank] < list.size() && (!is_compute(list[next[rank]].kind) || ready(list[next[rank]], done, chunks - 1))) {
        if (is_compute(list[next[rank]].kind)) done.add(list[next[rank]], schedule);
        ++next[rank];
        progress = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (next[rank] < schedule.ranks[rank].size()) {
      const Action& a = schedule.ranks[rank][next[rank]];
      fail<ConfigError>("schedule '{}' deadlocks: rank {} waits for ever before {}{}.{}", schedule.name, rank, name_of(a.kind),
                        a.chunk, a.microbatch);
    }
  for (int c = 0; c < chunks; ++c)
    for (int m = 0; m < schedule.microbatches; ++m)
      require<ConfigError>(done.has(ActionKind::kForward, c, m) && done.has(ActionKind::kBackwardWeight, c, m),
                           "schedule '{}' leaves out microbatch {} of chunk {}", schedule.name, m, c);
}

int microbatches_in_flight(const Schedule& schedule, int chunk) {
  const auto& list = schedule.ranks[schedule.placement.rank_of_chunk[chunk]];
  int held = 0, most = 0;
  for (const auto& a : list) {
    if (a.chunk != chunk) continue;
    if (a.kind == ActionKind::kForward) most = std::max(most, ++held);
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) --held;
  }
  return most;
}

}  // namespace stoa::schedule
