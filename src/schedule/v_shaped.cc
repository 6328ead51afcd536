// Schedules with two chunks per rank placed as a V: the last rank hands its first chunk's output to itself.
// Also DualPipe, whose two copies of a model are placed like the two halves of a V.
#include <algorithm>
#include <deque>

#include "base/error.h"
#include "schedule/generators.h"

namespace stoa::schedule {
namespace {

Schedule empty_v(std::string name, int stages, int microbatches) {
  require<ConfigError>(stages >= 1 && microbatches >= 1,
                       "a {} schedule needs at least 1 stage and 1 microbatch, got {} and {}", name, stages,
                       microbatches);
  return {std::move(name), ChunkPlacement::v_shaped(stages), microbatches,
          std::vector<std::vector<Action>>(stages)};
}

// Writes one rank's list; microbatches are counted automatically.
class Writer {
 public:
  Writer(std::vector<Action>& list, int chunk_a, int chunk_b) : list_(list), chunk_{chunk_a, chunk_b} {}
  // For a V: chunk a is the rank's first, b its second.
  static Writer of_rank(std::vector<Action>& list, int rank, int stages) {
    return {list, rank, 2 * stages - 1 - rank};
  }

  void forward(int c, bool overlaps_next = false) {
    list_.push_back({ActionKind::kForward, chunk_[c], forwards_[c]++, overlaps_next});
  }
  void whole_backward(int c) { list_.push_back({ActionKind::kBackward, chunk_[c], backwards_[c]++}); }
  void input(int c) {
    waiting_.push_back({ActionKind::kBackwardWeight, chunk_[c], backwards_[c]});
    list_.push_back({ActionKind::kBackwardInput, chunk_[c], backwards_[c]++});
  }
  // Weight gradients: of the oldest waiting microbatch of one chunk, or of both.
  void weight(int c) {
    take(std::find_if(waiting_.begin(), waiting_.end(),
                      [&](const Action& a) { return a.chunk == chunk_[c]; }));
  }
  void oldest_weight() { take(waiting_.begin()); }
  bool waiting() const { return !waiting_.empty(); }
  bool waiting(int c) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Action& a) { return a.chunk == chunk_[c]; });
  }
  int forwards(int c) const { return forwards_[c]; }

 private:
  void take(std::deque<Action>::iterator it) {
    require<InternalError>(it != waiting_.end(), "no weight gradient waits on chunk {}", chunk_[0]);
    list_.push_back(*it);
    waiting_.erase(it);
  }
  std::vector<Action>& list_;
  int chunk_[2], forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
  std::deque<Action> waiting_;
};

constexpr int kA = 0, kB = 1;

void times(int n, const auto& body) {
  for (int i = 0; i < n; ++i) body(i);
}

// Start slots of Fa, Fb, Bb, Ba of microbatch 0; microbatch m is 6 m later. Weight gradients fill the gaps,
// oldest first.
struct Block {
  int slot[4];
};

constexpr int kPeriod = 6;

void write_block(Writer& out, const Block& block, int microbatches) {
  constexpr int kChunks[4] = {kA, kB, kB, kA};
  const int end = *std::max_element(block.slot, block.slot + 4) + kPeriod * microbatches;
  for (int t = 0; t < end; ++t) {
    bool used = false;
    for (int i = 0; i < 4; ++i) {
      const int since = t - block.slot[i];
      if (since < 0 || since % kPeriod != 0 || since / kPeriod >= microbatches) continue;
      i < 2 ? out.forward(kChunks[i]) : out.input(kChunks[i]);
      used = true;
    }
    if (!used && out.waiting()) out.oldest_weight();
  }
  while (out.waiting()) out.oldest_weight();
}

}  // namespace

Schedule zero_bubble_v(int stages, int microbatches) {
  Schedule schedule = empty_v("zb-v", stages, microbatches);
  // Written for at least 2 stages - 1 microbatches; actions of microbatches that do not exist are removed.
  const int n = std::max(microbatches, 2 * stages - 1);
  for (int r = 0; r < stages; ++r) {
    std::vector<Action> list;
    Writer out = Writer::of_rank(list, r, stages);
    times(2 * (stages - r) - 1, [&](int) { out.forward(kA); });
    times(r, [&](int) { out.forward(kB), out.forward(kA); });
    times(stages - r, [&](int) { out.forward(kB), out.input(kB), out.weight(kB); });
    while (out.forwards(kB) < out.forwards(kA) || out.forwards(kA) < n) {
      if (out.forwards(kA) < n) out.forward(kA);
      out.input(kA), out.weight(kA), out.forward(kB), out.input(kB), out.weight(kB);
    }
    times(r, [&](int) { out.input(kA), out.input(kB); });
    times(stages - r, [&](int) { out.input(kA), out.weight(kA); });
    while (out.waiting(kB)) out.weight(kB);
    while (out.waiting(kA)) out.weight(kA);
    std::copy_if(list.begin(), list.end(), std::back_inserter(schedule.ranks[r]),
                 [&](const Action& a) { return a.microbatch < microbatches; });
  }
  return schedule;
}

// One rank of DualPipeV over `stages` ranks, or of one half of DualPipe.
void write_dual(Writer& out, int rank, int stages, int microbatches) {
  const auto pair = [&](int f, int b) { out.forward(f, true), out.whole_backward(b); };
  times(2 * (stages - rank - 1), [&](int) { out.forward(kA); });
  times(rank + 1, [&](int) { out.forward(kA), out.forward(kB); });
  times(stages - rank - 1, [&](int) { out.input(kB), out.oldest_weight(), out.forward(kB); });
  times(microbatches - 2 * stages + rank + 1, [&](int i) {
    // On the last rank the first pair would depend on itself.
    if (i == 0 && rank == stages - 1) {
      out.forward(kA), out.whole_backward(kB);
    } else {
      pair(kA, kB);
    }
    pair(kB, kA);
  });
  times(stages - rank - 1, [&](int) { out.whole_backward(kB), pair(kB, kA); });
  bool split = false;  // the second half of these backwards leaves the weights for later
  times(rank + 1, [&](int i) {
    split = split || (i == (rank + 1) / 2 && rank % 2 == 1);
    split ? out.input(kB) : out.whole_backward(kB);
    split = split || (i == (rank + 1) / 2 && rank % 2 == 0);
    split ? out.input(kA) : out.whole_backward(kA);
  });
  times(stages - rank - 1, [&](int) { out.oldest_weight(), out.input(kA); });
  times(rank + 1, [&](int) { out.oldest_weight(); });
}

Schedule dual_pipe_v(int stages, int microbatches) {
  Schedule schedule = empty_v("dualpipev", stages, microbatches);
  require<ConfigError>(microbatches >= 2 * stages,
                       "schedule 'dualpipev' over {} stages needs at least {} microbatches, got {}: use {} "
                       "microbatches, or zb-v",
                       stages, 2 * stages, microbatches, 2 * stages);
  for (int r = 0; r < stages; ++r) {
    Writer out = Writer::of_rank(schedule.ranks[r], r, stages);
    write_dual(out, r, stages, microbatches);
  }
  return schedule;
}

Schedule dual_pipe(int stages, int microbatches) {
  const int even = stages + stages % 2, least = 2 * even;
  require<ConfigError>(stages >= 1 && stages % 2 == 0,
                       "schedule 'dualpipe' needs an even number of stages, got {}: use {}, or dualpipev",
                       stages, std::max(even, 2));
  require<ConfigError>(
      microbatches >= least && microbatches % 2 == 0,
      "schedule 'dualpipe' over {} stages needs an even number of microbatches of at least {}, "
      "got {}: use {}",
      stages, least, microbatches, std::max(least, microbatches + microbatches % 2));
  Schedule schedule{"dualpipe", ChunkPlacement::two_ways(stages), microbatches / 2,
                    std::vector<std::vector<Action>>(stages)};
  for (int r = 0; r < stages; ++r) {
    // The second half of the ranks holds the two copies in exchanged roles.
    const int other = stages - 1 - r, half = std::min(r, other);
    Writer out(schedule.ranks[r], r == half ? r : stages + other, r == half ? stages + other : r);
    write_dual(out, half, stages / 2, microbatches / 2);
  }
  return schedule;
}

Schedule v_half(int stages, int microbatches) {
  Schedule schedule = empty_v("v-half", stages, microbatches);
  const int p = stages, k = p % 2 == 0 ? 3 : 0;
  for (int r = 0; r < p; ++r) {
    Writer out = Writer::of_rank(schedule.ranks[r], r, p);
    write_block(out, {{2 * r, 3 * p - r - 2, 3 * p + k + 2 * r - 1, 6 * p + k - r - 2}}, microbatches);
  }
  return schedule;
}

Schedule v_min(int stages, int microbatches) {
  Schedule schedule = empty_v("v-min", stages, microbatches);
  const int p = stages, k = p % 3 == 0 ? 2 : 0;
  for (int r = 0; r < p; ++r) {
    Writer out = Writer::of_rank(schedule.ranks[r], r, p);
    write_block(out, {{r, 2 * p - r - 1, 2 * p + k + r, 4 * p + k - r - 1}}, microbatches);
  }
  return schedule;
}

}  // namespace stoa::schedule
