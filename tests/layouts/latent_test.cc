// Multi-head latent attention, alone and beside routed and shared experts, in every layout against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TestRun small_deepseek() { return family_run("DeepSeek-V3"); }
TestRun plain() { return family_run("latent attention alone"); }

struct LatentRow {
  int tensor = 1;
  bool sequence = false;
  int context = 1;
  parallel::ContextKind kind = parallel::ContextKind::kAllGather;
  int data = 1, pipeline = 1;
  const char* schedule = "1f1b";
  int chunks = 0;
  grid::ExpertDegrees experts = {};

  run::Layout layout(int zero = 0) const {
    run::Layout out;
    out.grid = grid::RankGrid({tensor, context, 1, data, pipeline}, experts);
    out.sequence_parallel = sequence;
    out.context_kind = kind;
    out.schedule = schedule;
    out.chunks = chunks;
    out.zero_stage = zero;
    out.bucket_bytes = 20000;
    return out;
  }
};

void PrintTo(const LatentRow& row, std::ostream* out) {
  *out << "tp " << row.tensor << (row.sequence ? " sequence parallel" : "") << ", cp " << row.context << " "
       << name_of(row.kind) << ", dp " << row.data << ", pp " << row.pipeline << " " << row.schedule
       << ", etp " << row.experts.tensor << ", ep " << row.experts.expert;
}

void expect_latent_rows_close(const TestRun& run, const std::vector<LatentRow>& rows) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const LatentRow& row : rows) {
    SCOPED_TRACE(testing::PrintToString(row));
    EXPECT_THAT(differences(one, run_layout(run, row.layout()), kRounding), IsEmpty());
  }
}

TEST(LatentAttention, TensorAndSequenceParallel) {
  const std::vector<LatentRow> rows{{2, false}, {2, true}, {3, false}, {3, true}, {4, false}, {4, true}};
  expect_latent_rows_close(small_deepseek(), rows);
  expect_latent_rows_close(plain(), rows);
  TestRun biased = small_deepseek();
  biased.config.qkv_bias = biased.config.attention_output_bias = true;
  expect_latent_rows_close(biased, {{2, true}, {3, false}});
}

TEST(LatentAttention, ContextParallelOfEveryKind) {
  using enum parallel::ContextKind;
  TestRun run = plain();
  run.packed = true;
  run.micro_batch = 2;
  expect_latent_rows_close(run, {{1, false, 2, kAllGather},
                                 {1, false, 2, kAllToAll},
                                 {1, false, 3, kRing},
                                 {2, true, 2, kAllGather},
                                 {2, true, 2, kRing}});
  expect_latent_rows_close(small_deepseek(), {{2, true, 2, kAllToAll}, {.context = 2, .experts = {1, 2}}});
}

TEST(LatentAttention, BesideExpertsDataAndPipeline) {
  expect_latent_rows_close(small_deepseek(),
                           {{.data = 2, .experts = {1, 2}},
                            {.data = 4, .experts = {1, 4}},
                            {.tensor = 2, .sequence = true, .data = 2, .experts = {1, 4}},
                            {.tensor = 2, .sequence = true, .data = 2, .pipeline = 2, .experts = {2, 2}},
                            {.tensor = 2, .pipeline = 2, .schedule = "interleaved", .chunks = 2}});
}

TEST(LatentAttention, SchedulesStagesAndRecomputationChangeNoBit) {
  for (const bool experts : {false, true})
    for (const LatentRow& row : {LatentRow{}, LatentRow{.tensor = 2, .sequence = true, .data = 2}}) {
      SCOPED_TRACE(testing::PrintToString(row));
      TestRun run = experts ? small_deepseek() : plain();
      const RunResult kept = run_layout(run, row.layout());
      ASSERT_THAT(kept.faults, IsEmpty());
      LatentRow split = row;
      split.pipeline = 2;
      split.schedule = "zb-h1";
      EXPECT_THAT(differences(kept, run_layout(run, split.layout()), 0), IsEmpty());
      split.pipeline = 3;
      EXPECT_THAT(differences(kept, run_layout(run, with_spread_layers(split.layout(), 4)), 0), IsEmpty());
      split.pipeline = 2;
      for (int stage = 1; row.data > 1 && stage <= 3; ++stage)
        EXPECT_THAT(differences(kept, run_layout(run, row.layout(stage)), 0), IsEmpty()) << stage;
      for (const auto granularity :
           {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
        run.config.recompute = {granularity, {}, {}};
        EXPECT_THAT(differences(kept, run_layout(run, row.layout()), 0), IsEmpty());
        EXPECT_THAT(differences(kept, run_layout(run, split.layout()), 0), IsEmpty());
      }
    }
}

}  // namespace
}  // namespace stoa::layouts
