// Linear attention between layers of gated softmax attention, with experts and without, in every layout
// against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TestRun hybrid(bool experts) { return family_run(experts ? "Qwen3-Next of experts" : "Qwen3-Next"); }

struct Place {
  int tensor = 1;
  bool sequence = false;
  int data = 1, pipeline = 1;
  const char* schedule = "1f1b";
  int chunks = 0;
  grid::ExpertDegrees experts = {};

  run::Layout layout(int zero = 0) const {
    run::Layout out;
    out.grid = grid::RankGrid({tensor, 1, 1, data, pipeline}, experts);
    out.sequence_parallel = sequence;
    out.schedule = schedule;
    out.chunks = chunks;
    out.zero_stage = zero;
    out.bucket_bytes = 20000;
    return out;
  }
};

void PrintTo(const Place& place, std::ostream* out) {
  *out << "tp " << place.tensor << (place.sequence ? " sequence parallel" : "") << ", dp " << place.data
       << ", pp " << place.pipeline << " " << place.schedule << ", etp " << place.experts.tensor << ", ep "
       << place.experts.expert;
}

void expect_places_close(const TestRun& run, const std::vector<Place>& places) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const Place& place : places) {
    SCOPED_TRACE(testing::PrintToString(place));
    EXPECT_THAT(differences(one, run_layout(run, place.layout()), kRounding), IsEmpty());
  }
}

TEST(LinearAttention, TensorAndSequenceParallel) {
  for (const bool packed : {false, true}) {
    TestRun run = hybrid(false);
    run.packed = packed;
    run.micro_batch = packed ? 2 : 1;
    // Three ranks have two value heads each, two have four and two.
    expect_places_close(run, {{2, false}, {2, true}, {3, false}, {3, true}});
  }
}

TEST(LinearAttention, BesideExpertsDataAndPipeline) {
  expect_places_close(hybrid(true),
                      {{.data = 2, .experts = {1, 2}},
                       {.tensor = 2, .sequence = true, .data = 2, .experts = {1, 4}},
                       {.tensor = 2, .sequence = true, .data = 2, .pipeline = 2, .experts = {2, 2}},
                       {.tensor = 2, .pipeline = 2, .schedule = "interleaved", .chunks = 2}});
}

TEST(LinearAttention, SchedulesStagesAndRecomputationChangeNoBit) {
  for (const Place& place : {Place{}, Place{.tensor = 2, .sequence = true, .data = 2}}) {
    SCOPED_TRACE(testing::PrintToString(place));
    TestRun run = hybrid(place.data > 1);
    const RunResult kept = run_layout(run, place.layout());
    ASSERT_THAT(kept.faults, IsEmpty());
    Place split = place;
    split.pipeline = 2;
    split.schedule = "zb-h1";
    EXPECT_THAT(differences(kept, run_layout(run, split.layout()), 0), IsEmpty());
    for (const int stages : {3, 4}) {
      split.pipeline = stages;
      EXPECT_THAT(differences(kept, run_layout(run, with_spread_layers(split.layout(), 4)), 0), IsEmpty());
    }
    split.pipeline = 2;
    for (int stage = 1; place.data > 1 && stage <= 3; ++stage)
      EXPECT_THAT(differences(kept, run_layout(run, place.layout(stage)), 0), IsEmpty()) << stage;
    for (const auto granularity :
         {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
      run.config.recompute = {granularity, {}, {}};
      EXPECT_THAT(differences(kept, run_layout(run, place.layout()), 0), IsEmpty());
      EXPECT_THAT(differences(kept, run_layout(run, split.layout()), 0), IsEmpty());
    }
  }
}

TEST(LinearAttention, IsRefusedWhereATextIsCut) {
  EXPECT_THROW(run_layout(hybrid(false), layout_of(1, 2, 1, 1, 1)), ConfigError);
  EXPECT_THROW(run_layout(hybrid(false), layout_of(4, 1, 1, 1, 1)), ConfigError);  // three key heads
}

}  // namespace
}  // namespace stoa::layouts
