// The options by which families differ in a few lines, in every layout, against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

run::Layout ring(int ranks) {
  run::Layout layout = layout_of(1, ranks, 1, 1, 1);
  layout.context_kind = parallel::ContextKind::kRing;
  return layout;
}

// Tensor, context and data parallelism round otherwise than one rank; schedules, ZeRO and recomputation
// change no bit.
void expect_same_run(const TestRun& run, bool context = true) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  std::vector<run::Layout> close{tensor_parallel(2, false), tensor_parallel(2, true),
                                 tensor_parallel(4, true), data_parallel(2), tensor_parallel(2, true, 2, 2)};
  if (context) close.push_back(ring(2));
  for (const run::Layout& layout : close) {
    SCOPED_TRACE(run::rank_name(layout.grid, layout.grid.size() - 1));
    EXPECT_THAT(differences(one, run_layout(run, layout), 1e-9), IsEmpty());
  }
  for (const run::Layout& layout :
       {pipeline(2), with_spread_layers(pipeline(3), 4), pipeline(4), pipeline(2, "interleaved", 2),
        pipeline(2, "zb-v"), with_spread_layers(pipeline(3, "zb-v"), 4)})
    EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty()) << layout.schedule;
  const RunResult two = run_layout(run, data_parallel(2));
  for (const int stage : {2, 3}) {
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    EXPECT_THAT(differences(two, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
  }
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    TestRun other = run;
    other.config.recompute = {granularity, {}, {}};
    EXPECT_THAT(differences(one, run_layout(other, data_parallel(1)), 0), IsEmpty());
  }
}

TEST(ModelOptions, Multipliers) {
  expect_same_run(family_run("multipliers"));
  expect_same_run(family_run("multipliers and experts"));
}

TEST(ModelOptions, OneNormForBothBranches) { expect_same_run(family_run("one norm for both branches")); }

TEST(ModelOptions, NormsWithoutParameters) { expect_same_run(family_run("norms without parameters")); }

TEST(ModelOptions, FirstPositionAndHeadBias) { expect_same_run(family_run("first position and head bias")); }

TEST(ModelOptions, NormsAfterRotationAndLayersWithoutIt) {
  expect_same_run(family_run("norms after rotation, layers without it"));
}

TEST(ModelOptions, GatedSharedExpert) {
  const TestRun run = family_run("gated shared expert");
  expect_same_run(run);
  run::Layout spread;
  spread.grid = grid::RankGrid({2, 1, 1, 2, 1}, {1, 4});
  spread.sequence_parallel = true;
  EXPECT_THAT(differences(run_layout(run, data_parallel(1)), run_layout(run, spread), 1e-9), IsEmpty());
}

TEST(ModelOptions, EncoderOfWindowsAndNormsBeforeBranches) {
  expect_same_run(family_run("ModernBERT"), false);
}

TEST(ModelOptions, EncoderOfBiasesByDistance) { expect_same_run(family_run("MPNet"), false); }

TEST(ModelOptions, BiasesByDistanceOfEachLayer) { expect_same_run(family_run("umT5"), false); }

}  // namespace
}  // namespace stoa::layouts
