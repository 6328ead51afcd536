#include "schedule/validate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stoa::schedule {
namespace {

// What has been done: (kind, chunk, microbatch), with a whole backward counted as both halves.
class Done {
 public:
  explicit Done(const Schedule& schedule)
      : chunks_(schedule.placement.chunks()),
        microbatches_(schedule.microbatches),
        done_(static_cast<std::size_t>(kKinds) * chunks_ * microbatches_, false) {}

  bool has(ActionKind kind, int chunk, int microbatch) const { return done_[at(kind, chunk, microbatch)]; }
  void add(const Action& a, const Schedule& schedule) {
    const auto insert = [&](ActionKind kind) {
      const std::size_t place = at(kind, a.chunk, a.microbatch);
      require<ConfigError>(!done_[place], "schedule '{}' does {}{}.{} twice", schedule.name, name_of(kind),
                           a.chunk, a.microbatch);
      done_[place] = true;
    };
    if (a.kind == ActionKind::kBackward) {
      insert(ActionKind::kBackwardInput);
      insert(ActionKind::kBackwardWeight);
    } else {
      insert(a.kind);
    }
  }

 private:
  static constexpr int kKinds = static_cast<int>(ActionKind::kStep) + 1;
  std::size_t at(ActionKind kind, int chunk, int microbatch) const {
    return (static_cast<std::size_t>(kind) * chunks_ + chunk) * microbatches_ + microbatch;
  }
  int chunks_, microbatches_;
  std::vector<bool> done_;
};

// Walks all lists at once. Transfers block both ranks until each has reached its end: the strictest way to
// run them.
class Walk {
 public:
  explicit Walk(const Schedule& schedule)
      : schedule_(schedule), next_(schedule.ranks.size(), 0), done_(schedule) {
    for (const auto& list : schedule.ranks)
      lowered_ = lowered_ ||
                 std::any_of(list.begin(), list.end(), [](const Action& a) { return !is_compute(a.kind); });
  }

  Done run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank)
        while (advance(rank)) progress = true;
    }
    for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank)
      if (const Action* a = head(rank))
        fail<ConfigError>("schedule '{}' deadlocks: rank {} waits forever before {}", schedule_.name, rank,
                          to_text(*a));
    return std::move(done_);
  }

 private:
  const Action* head(int rank) const {
    const auto& list = schedule_.ranks[rank];
    return next_[rank] < list.size() ? &list[next_[rank]] : nullptr;
  }

  // Whether another chunk's result is available: made on this rank, or received (before lowering: made
  // anywhere).
  bool arrived(ActionKind kind, int from, const Action& a) const {
    if (!done_.has(kind, from, a.microbatch)) return false;
    const auto& rank_of = schedule_.placement.rank_of_chunk;
    const auto receive =
        kind == ActionKind::kForward ? ActionKind::kReceiveActivation : ActionKind::kReceiveGradient;
    return !lowered_ || rank_of[from] == rank_of[a.chunk] || done_.has(receive, a.chunk, a.microbatch);
  }

  bool ready(const Action& a) const {
    switch (a.kind) {
      case ActionKind::kForward:
        return schedule_.placement.begins(a.chunk) || arrived(ActionKind::kForward, a.chunk - 1, a);
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return done_.has(ActionKind::kForward, a.chunk, a.microbatch) &&
               (schedule_.placement.ends(a.chunk) || arrived(ActionKind::kBackwardInput, a.chunk + 1, a));
      case ActionKind::kBackwardWeight:
        return done_.has(ActionKind::kBackwardInput, a.chunk, a.microbatch);
      case ActionKind::kSendActivation:
        return done_.has(ActionKind::kForward, a.chunk, a.microbatch);
      case ActionKind::kSendGradient:
        return done_.has(ActionKind::kBackwardInput, a.chunk, a.microbatch);
      default:
        return true;
    }
  }

  bool advance(int rank) {
    const Action* a = head(rank);
    if (!a || a->kind == ActionKind::kReceiveActivation || a->kind == ActionKind::kReceiveGradient ||
        !ready(*a))
      return false;
    if (a->kind == ActionKind::kSendActivation || a->kind == ActionKind::kSendGradient) {
      const int peer = peer_of(*a, schedule_.placement);
      const Action* other = head(peer);
      if (peer == rank || !other || *other != matching_receive(*a)) return false;
      done_.add(*other, schedule_);
      ++next_[peer];
    }
    if (is_compute(a->kind) || is_transfer(a->kind)) done_.add(*a, schedule_);
    ++next_[rank];
    return true;
  }

  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  bool lowered_ = false;
  Done done_;
};

void check_own(const Schedule& schedule) {
  const auto& rank_of = schedule.placement.rank_of_chunk;
  require<ConfigError>(static_cast<int>(schedule.ranks.size()) == schedule.placement.ranks(),
                       "schedule '{}' has lists for {} ranks and chunks on {}", schedule.name,
                       schedule.ranks.size(), schedule.placement.ranks());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const auto& a : schedule.ranks[rank])
      if ((is_compute(a.kind) || is_transfer(a.kind)) &&
          (a.chunk < 0 || a.chunk >= schedule.placement.chunks() || a.microbatch < 0 ||
           a.microbatch >= schedule.microbatches || rank_of[a.chunk] != static_cast<int>(rank)))
        fail<ConfigError>("schedule '{}': rank {} runs {}, which is not its own", schedule.name, rank,
                          to_text(a));
}

void check_pairs(const Schedule& schedule) {
  for (const auto& list : schedule.ranks)
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].overlaps_next)
        require<ConfigError>(i + 1 < list.size() && list[i].kind == ActionKind::kForward &&
                                 is_backward(list[i + 1].kind) &&
                                 list[i].microbatch != list[i + 1].microbatch,
                             "schedule '{}' overlaps {} with nothing, or with what depends on it",
                             schedule.name, to_text(list[i]));
}

// Each chunk adds its weight gradients in the order of microbatches, so that no schedule changes a sum.
void check_gradient_order(const Schedule& schedule) {
  std::vector<int> next(schedule.placement.chunks(), 0);
  for (const auto& list : schedule.ranks)
    for (const auto& a : list)
      if ((a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) &&
          a.microbatch != next[a.chunk]++)
        fail<ConfigError>("schedule '{}' adds the weight gradients of chunk {} out of order at {}",
                          schedule.name, a.chunk, to_text(a));
}

}  // namespace

void validate(const Schedule& schedule) {
  const int chunks = schedule.placement.chunks();
  check_own(schedule);
  check_pairs(schedule);
  const Done done = Walk(schedule).run();
  for (int c = 0; c < chunks; ++c)
    for (int m = 0; m < schedule.microbatches; ++m)
      require<ConfigError>(
          done.has(ActionKind::kForward, c, m) &&
              done.has(ActionKind::kBackwardWeight, c, m) == schedule.placement.runs_backward(c),
          "schedule '{}' leaves out microbatch {} of chunk {}", schedule.name, m, c);
  check_gradient_order(schedule);
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
