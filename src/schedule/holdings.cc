#include "schedule/holdings.h"

#include <algorithm>
#include <map>

namespace stoa::schedule {
namespace {

// A number that remembers its largest value.
struct Count {
  int now = 0, most = 0;
  void add() { most = std::max(most, ++now); }
  void remove() { --now; }
};

bool has_backward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

}  // namespace

void Holdings::enlarge(const Holdings& other) {
  const auto larger = [](std::vector<int>& mine, const std::vector<int>& theirs) {
    mine.resize(std::max(mine.size(), theirs.size()), 0);
    for (std::size_t i = 0; i < theirs.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  };
  larger(activations, other.activations);
  larger(stashes, other.stashes);
  larger(inputs, other.inputs);
  larger(gradients, other.gradients);
  batches = std::max(batches, other.batches);
  sends = std::max(sends, other.sends);
}

bool Holdings::covers(const Holdings& other) const {
  const auto enough = [](const std::vector<int>& mine, const std::vector<int>& theirs) {
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (theirs[i] > (i < mine.size() ? mine[i] : 0)) return false;
    return true;
  };
  return enough(activations, other.activations) && enough(stashes, other.stashes) &&
         enough(inputs, other.inputs) && enough(gradients, other.gradients) && batches >= other.batches &&
         sends >= other.sends;
}

Holdings holdings_of(const Schedule& schedule, int rank) {
  const auto& list = schedule.ranks[rank];
  const auto& rank_of = schedule.placement.rank_of_chunk;
  const int chunks = schedule.placement.chunks();
  const bool trains =
      std::any_of(list.begin(), list.end(), [](const Action& a) { return has_backward(a.kind); });
  std::vector<Count> activations(chunks), stashes(chunks), inputs(chunks), gradients(chunks);
  Count batches, outgoing;
  int sends = 0;
  std::map<int, int> left;  // computations of a microbatch that are still to come
  std::map<int, bool> held;
  for (const Action& a : list)
    if (is_compute(a.kind)) ++left[a.microbatch];
  const ChunkPlacement& placement = schedule.placement;
  // A result for chunk `to`: kept here, or to be sent.
  const auto hand_on = [&](std::vector<Count>& where, int to) {
    if (rank_of[to] == rank)
      where[to].add();
    else
      outgoing.add();
  };
  for (const Action& a : list) {
    if (is_compute(a.kind) && !held[a.microbatch]) held[a.microbatch] = true, batches.add();
    switch (a.kind) {
      case ActionKind::kForward:
        if (trains && placement.runs_backward(a.chunk)) activations[a.chunk].add();
        if (!placement.ends(a.chunk)) hand_on(inputs, a.chunk + 1);
        if (!placement.begins(a.chunk)) inputs[a.chunk].remove();
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        if (a.kind == ActionKind::kBackwardInput) stashes[a.chunk].add();
        if (placement.returns_gradient(a.chunk)) hand_on(gradients, a.chunk - 1);
        if (!placement.ends(a.chunk)) gradients[a.chunk].remove();
        if (a.kind == ActionKind::kBackward) activations[a.chunk].remove();
        break;
      case ActionKind::kBackwardWeight:
        stashes[a.chunk].remove();
        activations[a.chunk].remove();
        break;
      case ActionKind::kReceiveActivation:
        inputs[a.chunk].add();
        break;
      case ActionKind::kReceiveGradient:
        gradients[a.chunk].add();
        break;
      case ActionKind::kSendActivation:
      case ActionKind::kSendGradient:
        outgoing.remove();
        ++sends;
        break;
      default:
        break;
    }
    if (is_compute(a.kind) && --left[a.microbatch] == 0) batches.remove();
  }
  Holdings out;
  const auto most = [](const std::vector<Count>& counts) {
    std::vector<int> values;
    for (const Count& count : counts) values.push_back(count.most);
    return values;
  };
  out.activations = most(activations);
  out.stashes = most(stashes);
  out.inputs = most(inputs);
  out.gradients = most(gradients);
  out.batches = batches.most;
  out.sends = std::min(sends, outgoing.most + 1);
  return out;
}

}  // namespace stoa::schedule
