// How data-parallel ranks share a step (ZeRO stages, buckets, overlap) does not change a bit; what else the
// layout does goes on below it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

struct BucketRow {
  std::int64_t bucket_bytes;
  bool overlap;
};
constexpr BucketRow kSharing[] = {{160 << 20, false}, {1, true}, {20000, true}};

// Every stage, in a bit-equal form, against stage 0.
void expect_stages_equal(const TestRun& run, run::Layout layout) {
  layout.zero_stage = 0;
  const RunResult replicated = run_layout(run, layout);
  EXPECT_THAT(replicated.faults, IsEmpty());
  for (int stage = 0; stage <= 3; ++stage)
    for (const BucketRow& row : kSharing) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", buckets of " << row.bucket_bytes
                                        << ", overlap " << row.overlap);
      layout.zero_stage = stage;
      layout.bucket_bytes = row.bucket_bytes;
      layout.overlap_grad_reduce = row.overlap;
      EXPECT_THAT(differences(replicated, run_layout(run, layout), 0), IsEmpty());
    }
}

TestRun short_run(bool tied, std::int64_t rows) {
  TestRun run = tiny_run();
  run.config.share_embeddings_and_output_weights = tied;
  run.rows = rows;
  run.steps = 6;
  return run;
}

TEST(Zero, OneMicrobatch) {
  for (const bool tied : {false, true})
    for (const int replicas : {2, 4}) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, tied " << tied);
      expect_stages_equal(short_run(tied, replicas), data_parallel(replicas));
    }
}

TEST(Zero, Accumulation) {
  for (const bool tied : {false, true}) expect_stages_equal(short_run(tied, 6), data_parallel(2));
}

TEST(Zero, LikeOneRank) {
  const TestRun run = tiny_run();
  run::Layout layout = data_parallel(4);
  const RunResult one = run_layout(run, data_parallel(1));
  for (const int stage : {1, 2, 3}) {
    layout.zero_stage = stage;
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty()) << "stage " << stage;
  }
}

TEST(Zero, ReducedAfterEachMicrobatch) {
  for (const bool tied : {false, true}) {
    const TestRun run = short_run(tied, 8);
    const RunResult one = run_layout(run, data_parallel(1));
    run::Layout layout = data_parallel(2);
    layout.reduce_each_microbatch = true;
    layout.zero_stage = 2;
    const RunResult second = run_layout(run, layout);
    EXPECT_THAT(differences(one, second, kRounding), IsEmpty());
    layout.overlap_grad_reduce = true;
    layout.zero_stage = 3;
    EXPECT_THAT(differences(second, run_layout(run, layout), 0), IsEmpty());
  }
}

TEST(Zero, UnderPipelines) {
  for (const bool tied : {false, true})
    for (const char* schedule : {"1f1b", "interleaved", "zb-v"}) {
      SCOPED_TRACE(::testing::Message() << schedule << ", tied " << tied);
      const TestRun run = short_run(tied, 8);
      run::Layout layout = pipeline(2, schedule, schedule == std::string("1f1b") ? 1 : 2);
      layout.grid = grid::RankGrid({1, 1, 1, 2, 2});
      const RunResult replicated = run_layout(run, data_parallel(2));
      for (const int stage : {0, 1, 2, 3}) {
        layout.zero_stage = stage;
        layout.bucket_bytes = 20000;
        layout.overlap_grad_reduce = stage > 1;
        EXPECT_THAT(differences(replicated, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
      }
    }
}

TEST(Zero, UnderTensorParallelism) {
  for (const bool tied : {false, true})
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "tied " << tied << ", sequence parallel " << sequence);
      const TestRun run = short_run(tied, 4);
      run::Layout layout = layout_of(2, 1, 1, 2, 1);
      layout.sequence_parallel = sequence;
      const RunResult one = run_layout(run, data_parallel(1)), replicated = run_layout(run, layout);
      EXPECT_THAT(differences(one, replicated, kRounding), IsEmpty());
      for (const int stage : {1, 2, 3}) {
        layout.zero_stage = stage;
        layout.overlap_grad_reduce = stage > 1;
        EXPECT_THAT(differences(replicated, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
      }
    }
}

// Four heads on three tensor ranks: columns of padding lie between those of canonical tensors.
TEST(Zero, UnderTensorRanksThatDoNotDivide) {
  const TestRun run = short_run(true, 4);
  run::Layout layout = layout_of(3, 1, 1, 2, 1);
  const RunResult one = run_layout(run, data_parallel(1)), replicated = run_layout(run, layout);
  EXPECT_THAT(differences(one, replicated, kRounding), IsEmpty());
  layout.zero_stage = 3;
  layout.overlap_grad_reduce = true;
  EXPECT_THAT(differences(replicated, run_layout(run, layout), 0), IsEmpty());
}

// Sixteen ranks of everything at once.
TEST(Zero, UnderAllAxes) {
  TestRun run = short_run(true, 8);
  run.config.num_layers = 4;
  run.config.recompute = {model::RecomputeGranularity::kSelective, {}, {}};
  run::Layout layout = layout_of(2, 1, 1, 4, 2);
  layout.sequence_parallel = true;
  layout.schedule = "interleaved";
  layout.chunks = 2;
  const RunResult one = run_layout(run, data_parallel(1)), replicated = run_layout(run, layout);
  EXPECT_THAT(differences(one, replicated, kRounding), IsEmpty());
  layout.overlap_grad_reduce = true;
  layout.bucket_bytes = 5000;
  for (const int stage : {1, 2, 3}) {
    layout.zero_stage = stage;
    EXPECT_THAT(differences(replicated, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
  }
}

TEST(Zero, RanksWithoutValidTokens) {
  TestRun run = short_run(true, 4);
  run.masked_rows = 1;
  expect_stages_equal(run, data_parallel(4));
  run.masked_rows = 4;  // nobody has one: every rank skips every step
  run::Layout layout = data_parallel(2);
  layout.zero_stage = 3;
  const Tensors trained = run_layout(run, layout).weights;
  run.steps = 1;
  EXPECT_TRUE(run_layout(run, data_parallel(1)).weights == trained);
}

TEST(Zero, InFp32AndBf16) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    TestRun run = short_run(true, 4);
    run.type = type;
    expect_stages_equal(run, data_parallel(2));
  }
}

}  // namespace
}  // namespace stoa::layouts
