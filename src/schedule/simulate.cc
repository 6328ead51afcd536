#include "schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace stoa::schedule {
namespace {

constexpr double kNever = -1;

// End times of forwards, input and weight gradients by (chunk, microbatch).
class Ends {
 public:
  Ends(int chunks, int microbatches)
      : microbatches_(microbatches), end_(3 * static_cast<std::size_t>(chunks) * microbatches, kNever) {}
  double& at(ActionKind kind, int chunk, int microbatch) {
    const int k = kind == ActionKind::kForward ? 0 : kind == ActionKind::kBackwardWeight ? 2 : 1;
    return end_[(static_cast<std::size_t>(chunk) * 3 + k) * microbatches_ + microbatch];
  }

 private:
  int microbatches_;
  std::vector<double> end_;
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        ends_(schedule.placement.chunks(), schedule.microbatches) {}

  Timeline run() {
    std::vector<std::vector<Action>> lists;
    for (const auto& list : schedule_.ranks) {
      lists.emplace_back();
      std::copy_if(list.begin(), list.end(), std::back_inserter(lists.back()),
                   [](const Action& a) { return is_compute(a.kind); });
    }
    timeline_.ranks.resize(lists.size());
    std::vector<std::size_t> next(lists.size(), 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < lists.size(); ++r)
        while (next[r] < lists[r].size()) {
          const std::size_t done = step(lists[r], next[r], static_cast<int>(r));
          if (done == 0) break;
          next[r] += done;
          progress = true;
        }
    }
    for (std::size_t r = 0; r < lists.size(); ++r)
      require<ConfigError>(next[r] == lists[r].size(),
                           "schedule '{}' deadlocks: rank {} waits forever before {}", schedule_.name, r,
                           next[r] < lists[r].size() ? to_text(lists[r][next[r]]) : "");
    for (const auto& rank : timeline_.ranks) {
      if (rank.empty()) continue;
      double busy = 0, end = 0;
      for (const auto& t : rank) busy += durations_.of(t.action), end = std::max(end, t.end);
      timeline_.makespan = std::max(timeline_.makespan, end);
      timeline_.span = std::max(timeline_.span, end - rank.front().start);
      timeline_.busy = std::max(timeline_.busy, busy);
    }
    return std::move(timeline_);
  }

 private:
  // Time at which an action may start; kNever while something it needs has not been simulated.
  double ready(const Action& a, int rank) {
    const auto from = [&](ActionKind kind, int chunk) {
      const double end = ends_.at(kind, chunk, a.microbatch);
      return end == kNever || schedule_.placement.rank_of_chunk[chunk] == rank
                 ? end
                 : end + durations_.communication;
    };
    if (a.kind == ActionKind::kForward)
      return schedule_.placement.begins(a.chunk) ? 0 : from(ActionKind::kForward, a.chunk - 1);
    if (a.kind == ActionKind::kBackwardWeight) return from(ActionKind::kBackwardInput, a.chunk);
    const double own = from(ActionKind::kForward, a.chunk);
    if (schedule_.placement.ends(a.chunk) || own == kNever) return own;
    const double after = from(ActionKind::kBackwardInput, a.chunk + 1);
    return after == kNever ? kNever : std::max(own, after);
  }

  void record(const Action& a, int rank, double start, double end) {
    timeline_.ranks[rank].push_back({a, start, end, order_++});
    ends_.at(a.kind, a.chunk, a.microbatch) = end;
  }

  // Simulates the action at `i` (with its overlapped partner, if any) and returns how many actions were done.
  std::size_t step(const std::vector<Action>& list, std::size_t i, int rank) {
    const auto& before = timeline_.ranks[rank];
    double start = before.empty() ? 0 : before.back().end;
    const bool pair = durations_.pairs_as_one && list[i].overlaps_next && i + 1 < list.size();
    double length = 0;
    for (std::size_t k = i; k <= i + pair; ++k) {
      const double at = ready(list[k], rank);
      if (at == kNever) return 0;
      start = std::max(start, at);
      length += durations_.of(list[k]);
    }
    for (std::size_t k = i; k <= i + pair; ++k) record(list[k], rank, start, start + length);
    return 1 + pair;
  }

  const Schedule& schedule_;
  const Durations& durations_;
  Ends ends_;
  Timeline timeline_;
  int order_ = 0;
};

}  // namespace

double Durations::of(const Action& action) const {
  if (!chunks.empty() && is_compute(action.kind)) {
    const ChunkTimes& chunk = chunks[action.chunk];
    return action.kind == ActionKind::kForward         ? chunk.forward
           : action.kind == ActionKind::kBackward      ? chunk.backward
           : action.kind == ActionKind::kBackwardInput ? chunk.backward_input
                                                       : chunk.backward_weight;
  }
  const double factor = chunk_weight.empty() ? 1 : chunk_weight[action.chunk];
  switch (action.kind) {
    case ActionKind::kForward:
      return factor * forward;
    case ActionKind::kBackward:
      return factor * (backward < 0 ? backward_input + backward_weight : backward);
    case ActionKind::kBackwardInput:
      return factor * backward_input;
    case ActionKind::kBackwardWeight:
      return factor * backward_weight;
    default:
      return 0;
  }
}

Timeline simulate(const Schedule& schedule, const Durations& durations) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  const auto not_negative = [](double x) { return std::isfinite(x) && x >= 0; };
  require<ConfigError>(positive(durations.forward) && positive(durations.backward_input) &&
                           not_negative(durations.backward_weight) && not_negative(durations.communication) &&
                           (durations.backward < 0 || positive(durations.backward)),
                       "durations must be positive (weight gradient and communication may be 0), got forward "
                       "{}, input gradient "
                       "{}, weight gradient {}, communication {}",
                       durations.forward, durations.backward_input, durations.backward_weight,
                       durations.communication);
  require<ConfigError>(
      durations.chunk_weight.empty() ||
          (static_cast<int>(durations.chunk_weight.size()) == schedule.placement.chunks() &&
           std::all_of(durations.chunk_weight.begin(), durations.chunk_weight.end(), positive)),
      "chunk weights must be {} positive numbers, got {}", schedule.placement.chunks(),
      durations.chunk_weight.size());
  require<ConfigError>(
      durations.chunks.empty() || static_cast<int>(durations.chunks.size()) == schedule.placement.chunks(),
      "times of {} chunks for a schedule of {}", durations.chunks.size(), schedule.placement.chunks());
  return Simulation(schedule, durations).run();
}

int activations_in_flight(const Schedule& schedule, int rank) {
  int held = 0, most = 0;
  for (const auto& a : schedule.ranks[rank]) {
    if (a.kind == ActionKind::kForward) most = std::max(most, ++held);
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) --held;
  }
  return most;
}

}  // namespace stoa::schedule
