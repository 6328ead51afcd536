#include "schedule/holdings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::schedule {
namespace {

using ::testing::ElementsAre;

TEST(Holdings, OneForwardOneBackward) {
  const Schedule steps = lower(one_forward_one_backward(4, 8));
  for (int rank = 0; rank < 4; ++rank) {
    const Holdings holdings = holdings_of(steps, rank);
    EXPECT_EQ(holdings.activations[rank], 4 - rank);
    EXPECT_EQ(holdings.batches, 4 - rank);
    EXPECT_EQ(holdings.stashes[rank], 0);
    EXPECT_EQ(holdings.inputs[rank] > 0, rank > 0);
    EXPECT_EQ(holdings.gradients[rank] > 0, rank < 3);
    EXPECT_EQ(holdings.sends, 2) << "one that is computed, one in flight";
    EXPECT_EQ(holdings.activations[(rank + 1) % 4], 0) << "of another rank";
  }
}

TEST(Holdings, AgreeWithWhatTheScheduleHolds) {
  for (const auto& name : run_schedule_names())
    for (const int stages : {2, 3, 4}) {
      const Schedule steps = lower(generate({.name = name, .stages = stages, .microbatches = 4 * stages}));
      for (int rank = 0; rank < stages; ++rank) {
        const Holdings holdings = holdings_of(steps, rank);
        int sum = 0;
        for (int c = 0; c < steps.placement.chunks(); ++c) {
          const bool own = steps.placement.rank_of_chunk[c] == rank;
          EXPECT_EQ(holdings.activations[c], own ? microbatches_in_flight(steps, c) : 0) << name;
          sum += holdings.activations[c];
        }
        EXPECT_GE(sum, activations_in_flight(steps, rank));
      }
    }
}

TEST(Holdings, SplitBackwardsHaveAStash) {
  const Schedule steps = lower(zero_bubble_h1(4, 8));
  EXPECT_EQ(holdings_of(steps, 0).stashes[0], 1);
  EXPECT_EQ(holdings_of(steps, 3).stashes[3], 4) << "weight gradients of rank 3 wait for three backwards";
}

TEST(Holdings, TheTurnOfAVStaysOnItsRank) {
  const Holdings last = holdings_of(lower(zero_bubble_v(2, 4)), 1);
  EXPECT_GT(last.inputs[2], 0) << "made by chunk 1 of the same rank";
  EXPECT_GT(last.gradients[1], 0);
}

TEST(Holdings, EnlargeAndCover) {
  const Holdings small = holdings_of(lower(gpipe(2, 2)), 0), large = holdings_of(lower(gpipe(2, 5)), 0);
  EXPECT_TRUE(large.covers(small));
  EXPECT_FALSE(small.covers(large));
  Holdings both = small;
  both.enlarge(large);
  EXPECT_TRUE(both.covers(large));
}

TEST(ForwardOnly, LowersWithoutReductionsAndSteps) {
  const Schedule steps = lower(forward_only(ChunkPlacement::interleaved(2, 2), 3));
  for (const auto& list : steps.ranks)
    for (const auto& action : list) {
      EXPECT_NE(action.kind, ActionKind::kReduceGradients);
      EXPECT_NE(action.kind, ActionKind::kStep);
    }
  int forwards = 0;
  for (const auto& list : steps.ranks)
    for (const auto& action : list) forwards += action.kind == ActionKind::kForward;
  EXPECT_EQ(forwards, 4 * 3);
  EXPECT_EQ(holdings_of(steps, 0).activations[0], 0) << "nothing waits for a backward pass";
}

TEST(PlacementOf, KnowsWhichSchedulesAreV) {
  for (const auto& name : run_schedule_names()) {
    const Schedule schedule = generate({.name = name, .stages = 3, .microbatches = 12});
    EXPECT_EQ(placement_of({.name = name, .stages = 3}).rank_of_chunk, schedule.placement.rank_of_chunk)
        << name;
  }
}

// Memory plans and runs look at one round of an evaluation, and at no more microbatches than this of a step.
TEST(Holdings, GrowNoMoreAfterTwiceTheStages) {
  for (const auto& name : run_schedule_names()) {
    if (name == "gpipe" || name == "bfs") continue;  // all microbatches at once
    for (const int stages : {2, 3, 5})
      for (const int microbatches : {3 * stages, 4 * stages, 7 * stages}) {
        const Schedule less = lower(generate({.name = name, .stages = stages, .microbatches = 2 * stages})),
                       more = lower(generate({.name = name, .stages = stages, .microbatches = microbatches}));
        for (int rank = 0; rank < stages; ++rank) {
          const Holdings a = holdings_of(less, rank), b = holdings_of(more, rank);
          EXPECT_TRUE(a.covers(b) && b.covers(a)) << name << " " << stages << " x " << microbatches;
        }
      }
  }
}

TEST(Holdings, AFullRoundOfAnEvaluationHoldsMost) {
  for (const int stages : {2, 3, 4})
    for (const ChunkPlacement& placement :
         {ChunkPlacement::one_chunk_per_rank(stages), ChunkPlacement::interleaved(stages, 3),
          ChunkPlacement::v_shaped(stages)}) {
      const Schedule full = lower(forward_only(placement, 4 * stages));
      for (int microbatches = 1; microbatches < 4 * stages; ++microbatches) {
        const Schedule part = lower(forward_only(placement, microbatches));
        for (int rank = 0; rank < stages; ++rank)
          EXPECT_TRUE(holdings_of(full, rank).covers(holdings_of(part, rank)))
              << stages << " " << microbatches;
      }
    }
}

}  // namespace
}  // namespace stoa::schedule
