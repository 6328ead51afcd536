#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "schedule/generators.h"
#include "schedule/holdings.h"
#include "schedule/validate.h"

namespace stoa::schedule {
namespace {

// Calls `check` for every schedule and size that can be generated; returns how many that was.
int for_many(const std::function<void(const Schedule&)>& check) {
  int count = 0;
  for (const std::string& name : schedule_names())
    for (int stages = 1; stages <= 6; ++stages)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (const int microbatches : {1, 2, stages, 2 * stages - 1, 2 * stages, 3 * stages + 1}) {
          Schedule s;
          try {
            s = generate({name, stages, chunks, microbatches, 0});
          } catch (const ConfigError&) {
            continue;
          }
          SCOPED_TRACE(name + " P=" + std::to_string(stages) + " V=" + std::to_string(chunks) +
                       " M=" + std::to_string(microbatches));
          check(s);
          ++count;
        }
  return count;
}

// One operation after another on every rank; a send and a receive wait for each other. An executor of its
// own, so that the validator does not judge itself. Returns how many transfers were made, or -1 where all
// ranks wait.
int run_blocking(const Schedule& s) {
  std::vector<std::size_t> at(s.ranks.size(), 0);
  std::map<std::tuple<bool, int, int>, int> made_on;  // (gradient, chunk that made it, microbatch)
  int transfers = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < static_cast<int>(at.size()); ++r) {
      if (at[r] == s.ranks[r].size()) continue;
      const Action a = s.ranks[r][at[r]];
      if (a.kind == ActionKind::kReceiveActivation || a.kind == ActionKind::kReceiveGradient) continue;
      if (a.kind == ActionKind::kSendActivation || a.kind == ActionKind::kSendGradient) {
        const bool gradient = a.kind == ActionKind::kSendGradient;
        const int needed_by = gradient ? a.chunk - 1 : a.chunk + 1,
                  peer = s.placement.rank_of_chunk.at(needed_by);
        if (at[peer] == s.ranks[peer].size()) return -1;
        const Action b = s.ranks[peer][at[peer]];
        if (b.kind != (gradient ? ActionKind::kReceiveGradient : ActionKind::kReceiveActivation) ||
            b.chunk != needed_by || b.microbatch != a.microbatch)
          continue;
        EXPECT_NE(peer, r);
        EXPECT_TRUE(made_on.contains({gradient, a.chunk, a.microbatch})) << to_text(a);
        made_on[{gradient, a.chunk, a.microbatch}] = peer;
        ++at[peer];
        ++transfers;
      } else if (is_compute(a.kind)) {
        const auto here = [&](bool gradient, int chunk) {
          const auto it = made_on.find({gradient, chunk, a.microbatch});
          EXPECT_TRUE(it != made_on.end() && it->second == r) << to_text(a) << " runs without its input";
        };
        if (a.kind == ActionKind::kForward) {
          if (!s.placement.begins(a.chunk)) here(false, a.chunk - 1);
          made_on[{false, a.chunk, a.microbatch}] = r;
        } else if (a.kind != ActionKind::kBackwardWeight) {
          if (!s.placement.ends(a.chunk)) here(true, a.chunk + 1);
          made_on[{true, a.chunk, a.microbatch}] = r;
        }
      }
      ++at[r];
      moved = true;
    }
  }
  for (std::size_t r = 0; r < at.size(); ++r)
    if (at[r] != s.ranks[r].size()) return -1;
  return transfers;
}

int expected_transfers(const Schedule& s) {
  int crossings = 0;
  for (int c = 0; c + 1 < s.placement.chunks(); ++c)
    crossings += !s.placement.ends(c) && s.placement.rank_of_chunk[c] != s.placement.rank_of_chunk[c + 1];
  return 2 * s.microbatches * crossings;
}

TEST(Lower, ListsRunWithoutDeadlockWhereEveryTransferBlocks) {
  Durations odd;
  odd.forward = 10, odd.backward_input = 12, odd.backward_weight = 8, odd.communication = 3;
  const int count = for_many([&](const Schedule& s) {
    for (const Durations& durations : {Durations{}, odd}) {
      const Schedule lowered = lower(s, durations);
      EXPECT_EQ(run_blocking(lowered), expected_transfers(s));
      validate(lowered);
      // Nothing but transfers, reductions and the step is added, and the order of computations stays.
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        std::vector<Action> left;
        for (const Action& a : lowered.ranks[r])
          if (is_compute(a.kind)) left.push_back(a);
        EXPECT_EQ(left, s.ranks[r]);
      }
    }
  });
  EXPECT_GT(count, 300);
}

TEST(Lower, ChannelsKeepOneOrderAtBothEnds) {
  for_many([](const Schedule& s) {
    using Channel = std::tuple<int, int, bool>;  // source, destination, gradient
    std::map<Channel, std::vector<Action>> sent, received;
    const Schedule lowered = lower(s);
    for (int r = 0; r < static_cast<int>(lowered.ranks.size()); ++r)
      for (const Action& a : lowered.ranks[r]) {
        if (!is_transfer(a.kind)) continue;
        const int peer = peer_of(a, s.placement);
        const bool gradient = a.kind == ActionKind::kSendGradient || a.kind == ActionKind::kReceiveGradient;
        if (a.kind == ActionKind::kSendActivation || a.kind == ActionKind::kSendGradient)
          sent[{r, peer, gradient}].push_back(matching_receive(a));
        else
          received[{peer, r, gradient}].push_back(a);
      }
    EXPECT_EQ(sent, received);
  });
}

// Chunks with nothing to train run forward only, in their places of the whole order: no rank holds more.
TEST(Lower, ChunksBeforeTheFirstTrainedOneRunForwardOnly) {
  for_many([](const Schedule& s) {
    if (s.placement.copies > 1) return;
    const Schedule whole = lower(s);
    for (int from = 1; from < s.placement.chunks(); ++from) {
      SCOPED_TRACE(from);
      const Schedule lowered = lower(s, {}, from);
      validate(lowered);
      int gradients = 0;
      for (int c = from + 1; c < s.placement.chunks(); ++c)
        gradients += s.placement.rank_of_chunk[c] != s.placement.rank_of_chunk[c - 1];
      EXPECT_EQ(run_blocking(lowered), expected_transfers(s) / 2 + s.microbatches * gradients);
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        std::vector<Action> left, expected;
        for (Action a : lowered.ranks[r]) {
          a.overlaps_next = false;
          if (is_compute(a.kind)) left.push_back(a);
        }
        for (Action a : s.ranks[r]) {
          a.overlaps_next = false;
          if (a.chunk >= from || !is_backward(a.kind)) expected.push_back(a);
        }
        EXPECT_EQ(left, expected);
        EXPECT_EQ(lowered.ranks[r].back().kind, ActionKind::kStep);
        EXPECT_TRUE(
            holdings_of(whole, static_cast<int>(r)).covers(holdings_of(lowered, static_cast<int>(r))));
      }
    }
  });
}

TEST(Lower, OneRankSendsNothing) {
  const Schedule s = lower(interleaved(1, 2, 2));
  EXPECT_EQ(to_text(s), "F0.0 F1.0 B1.0 F0.1 B0.0 F1.1 B1.1 RD1 B0.1 RD0 STEP\n");
  EXPECT_EQ(to_text(lower(zero_bubble_v(1, 1))), "F0.0 F1.0 I1.0 W1.0 RD1 I0.0 W0.0 RD0 STEP\n");
}

TEST(Lower, ReorderedTransfersAreCaught) {
  Schedule s = lower(zero_bubble_v(3, 6));
  for (auto& a : s.ranks[1])
    if (a.kind == ActionKind::kReceiveActivation && a.microbatch < 2) a.microbatch = 1 - a.microbatch;
  EXPECT_THROW(validate(s), ConfigError);
  EXPECT_EQ(run_blocking(s), -1);
  s = lower(zero_bubble_v(3, 6));  // a receive left out at both ends: the computation has no input
  for (auto& list : s.ranks)
    std::erase_if(list, [](const Action& a) {
      return (a.kind == ActionKind::kSendActivation && a.chunk == 0 && a.microbatch == 3) ||
             (a.kind == ActionKind::kReceiveActivation && a.chunk == 1 && a.microbatch == 3);
    });
  EXPECT_THROW(validate(s), ConfigError);
}

TEST(Lower, ValidatorFindsWrongPairsAndGradientOrder) {
  Schedule s = dual_pipe_v(2, 4);
  validate(s);
  s.ranks[0].front().overlaps_next = true;  // two forwards
  EXPECT_THROW(validate(s), ConfigError);
  s = zero_bubble_h1(2, 4);
  std::swap(s.ranks[1][s.ranks[1].size() - 1], s.ranks[1][s.ranks[1].size() - 2]);  // W3 before W2
  EXPECT_THROW(validate(s), ConfigError);
}

TEST(Lower, TextOfPairsIsReadBack) {
  const Schedule s = dual_pipe_v(2, 4);
  std::istringstream lines(to_text(s));
  for (const auto& rank : s.ranks) {
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(parse_actions(line), rank);
  }
}

void expect_refusal(const ScheduleRequest& request, const std::string& part) {
  try {
    generate(request);
    FAIL() << request.name << " was not refused";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Generate, RefusesWithTheNearestValidChoice) {
  expect_refusal({"interleaved", 4, 2, 9, 0}, "use 8 or 12 microbatches");
  expect_refusal({"interleaved-zb", 4, 2, 3, 0}, "use 4 microbatches");
  expect_refusal({"interleaved", 4, 2, 8, 3}, "use at least 4");
  expect_refusal({"dualpipev", 4, 2, 7, 0}, "use 8 microbatches");
  expect_refusal({"dualpipe", 3, 2, 8, 0}, "even number of stages, got 3: use 4");
  expect_refusal({"dualpipe", 4, 2, 9, 0}, "at least 8, got 9: use 10");
  expect_refusal({"zb-v", 4, 3, 8, 0}, "use --chunks 2");
  expect_refusal({"1f1b", 4, 2, 8, 0}, "use --chunks 1");
  expect_refusal({"zb-h3", 4, 1, 8, 0}, "zb-h1");
  expect_refusal({"1f1b", 0, 1, 8, 0}, "at least 1 stage");
  expect_refusal({"zb-v", 4, 2, 0, 0}, "1 microbatch");
  expect_refusal({"1f1b", 1 << 20, 1, 1 << 20, 0}, "use fewer");
}

}  // namespace
}  // namespace stoa::schedule
