#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "schedule/generators.h"

namespace stoa::schedule {
namespace {

// One element of the linear order: a computation of one rank, or a transfer, which two ranks take part in.
struct Element {
  double time;      // simulated start
  bool is_compute;  // at equal times transfers first: what is ready leaves before the next computation
  int order;        // of the computation itself or of the one that made what is sent
  Action action;    // the send, for a transfer
  auto key() const { return std::tuple(time, is_compute, order); }
};

std::vector<Element> linear_order(const Schedule& schedule, const Durations& durations) {
  const auto& rank_of = schedule.placement.rank_of_chunk;
  std::vector<Element> order;
  for (const auto& rank : simulate(schedule, durations).ranks)
    for (const TimedAction& t : rank) {
      const Action& a = t.action;
      if (t.end <= t.start && a.kind != ActionKind::kBackwardWeight)
        fail<InternalError>("{} has no duration", to_text(a));
      order.push_back({t.start, true, t.order, a});
      if (a.kind == ActionKind::kForward && !schedule.placement.ends(a.chunk) &&
          rank_of[a.chunk] != rank_of[a.chunk + 1])
        order.push_back({t.end, false, t.order, {ActionKind::kSendActivation, a.chunk, a.microbatch}});
      const bool input_gradient = a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardInput;
      if (input_gradient && !schedule.placement.begins(a.chunk) && rank_of[a.chunk] != rank_of[a.chunk - 1])
        order.push_back({t.end, false, t.order, {ActionKind::kSendGradient, a.chunk, a.microbatch}});
    }
  std::sort(order.begin(), order.end(), [](const Element& a, const Element& b) { return a.key() < b.key(); });
  return order;
}

// After the chunk's last backward and what it sends; at the end if it runs none.
void insert_reduction(std::vector<Action>& list, int chunk) {
  auto last = list.end();
  for (auto it = list.begin(); it != list.end(); ++it)
    if (it->chunk == chunk && is_backward(it->kind)) last = it;
  if (last != list.end()) ++last;
  while (last != list.end() && last->kind == ActionKind::kSendGradient && last->chunk == chunk) ++last;
  list.insert(last, {ActionKind::kReduceGradients, chunk, -1});
}

}  // namespace

Schedule lower(Schedule compute, const Durations& durations, int trained_from) {
  Durations planned = durations;
  planned.pairs_as_one = true;  // nothing may come between the two of a pair
  Schedule lowered = compute;
  for (auto& list : lowered.ranks) list.clear();
  lowered.placement.trained_from = trained_from;
  const auto& placement = lowered.placement;
  for (const Element& e : linear_order(compute, planned)) {
    auto& list = lowered.ranks[placement.rank_of_chunk[e.action.chunk]];
    if (is_backward(e.action.kind) && !placement.runs_backward(e.action.chunk)) {
      if (!list.empty()) list.back().overlaps_next = false;
      continue;
    }
    if (e.action.kind == ActionKind::kSendGradient && !placement.returns_gradient(e.action.chunk)) continue;
    list.push_back(e.action);
    if (!e.is_compute) lowered.ranks[peer_of(e.action, placement)].push_back(matching_receive(e.action));
  }
  const bool trains = std::any_of(lowered.ranks.begin(), lowered.ranks.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& a) { return is_backward(a.kind); });
  });
  if (!trains) return lowered;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk)
    insert_reduction(lowered.ranks[placement.rank_of_chunk[chunk]], chunk);
  for (auto& list : lowered.ranks) list.push_back({ActionKind::kStep, -1, -1});
  return lowered;
}

}  // namespace stoa::schedule
