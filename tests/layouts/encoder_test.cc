// Encoders (kind bert) over every axis, against one rank: rows end early, and the work follows their tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TestRun small_bert() { return family_run("BERT"); }
TestRun small_roberta() { return family_run("RoBERTa"); }
const char* const kLabelled[] = {"classes of texts",
                                 "numbers of texts",
                                 "classes of tokens",
                                 "answers",
                                 "classes of texts by a decoder",
                                 "classes of tokens by a decoder"};

TEST(Encoders, TensorAndSequenceParallelism) {
  for (const TestRun& run : {small_bert(), small_roberta()}) {
    const RunResult one = run_layout(run, data_parallel(1));
    ASSERT_THAT(one.faults, IsEmpty());
    for (const int ranks : {2, 3, 4})
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(std::to_string(ranks) + (sequence ? " sequence parallel" : ""));
        EXPECT_THAT(differences(one, run_layout(run, tensor_parallel(ranks, sequence)), kRounding),
                    IsEmpty());
      }
  }
}

TEST(Encoders, DataParallelismAndSharding) {
  const TestRun run = small_bert();
  const RunResult one = run_layout(run, data_parallel(1));
  for (const int ranks : {2, 4}) {
    const RunResult many = run_layout(run, data_parallel(ranks));
    EXPECT_THAT(differences(one, many, kRounding), IsEmpty());
    for (const int stage : {1, 2, 3}) {
      run::Layout layout = data_parallel(ranks);
      layout.zero_stage = stage;
      EXPECT_THAT(differences(many, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
    }
  }
}

TEST(Encoders, PipelinesChangeNoBit) {
  for (const TestRun& run : {small_bert(), small_roberta()}) {
    const RunResult one = run_layout(run, data_parallel(1));
    for (const run::Layout& layout :
         {pipeline(2), with_spread_layers(pipeline(3), 4), pipeline(4), pipeline(2, "interleaved", 2),
          pipeline(2, "zb-h1"), pipeline(2, "zb-v")})
      EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty()) << layout.schedule;
  }
}

TEST(Encoders, RecomputationChangesNoBit) {
  TestRun run = small_bert();
  const RunResult one = run_layout(run, data_parallel(1));
  using model::RecomputeGranularity;
  run.config.recompute.granularity = RecomputeGranularity::kSelective;
  EXPECT_THAT(differences(one, run_layout(run, data_parallel(1)), 0), IsEmpty());
  run.config.recompute.granularity = RecomputeGranularity::kFull;
  for (const auto method : {model::RecomputeMethod::kUniform, model::RecomputeMethod::kBlock}) {
    run.config.recompute.method = method;
    run.config.recompute.num_layers = 2;
    EXPECT_THAT(differences(one, run_layout(run, data_parallel(1)), 0), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(run, pipeline(2, "zb-h1")), 0), IsEmpty());
  }
}

TEST(Encoders, AxesTogether) {
  for (const TestRun& run : {small_bert(), small_roberta()}) {
    const RunResult one = run_layout(run, data_parallel(1));
    run::Layout layout = tensor_parallel(2, true, 2, 2);
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
    layout.zero_stage = 2;
    layout.overlap_grad_reduce = true;
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
  }
}

TEST(Encoders, LabelledTasks) {
  for (const char* name : kLabelled) {
    const TestRun run = family_run(name);
    const RunResult one = run_layout(run, data_parallel(1));
    ASSERT_THAT(one.faults, IsEmpty());
    for (const run::Layout& layout : {tensor_parallel(2, false), tensor_parallel(4, true), data_parallel(2),
                                      tensor_parallel(2, true, 2, 2)})
      EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
    const RunResult two = run_layout(run, data_parallel(2));
    for (const int stage : {1, 2, 3}) {
      run::Layout layout = data_parallel(2);
      layout.zero_stage = stage;
      EXPECT_THAT(differences(two, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
    }
    for (const run::Layout& layout :
         {pipeline(2), with_spread_layers(pipeline(3), 4), pipeline(4), pipeline(2, "interleaved", 2),
          pipeline(2, "zb-h1"), pipeline(2, "zb-v")})
      EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty()) << layout.schedule;
    TestRun again = run;
    again.config.recompute.granularity = model::RecomputeGranularity::kSelective;
    EXPECT_THAT(differences(one, run_layout(again, data_parallel(1)), 0), IsEmpty());
  }
}

// Where every token is real and to be predicted, what is planned is what is used.
TEST(Encoders, MemoryIsPlannedForFullRows) {
  TestRun run = small_roberta();
  run.full_rows = true;
  run.steps = 2;
  for (const run::Layout& layout :
       {data_parallel(1), tensor_parallel(2, true), pipeline(2), tensor_parallel(2, false, 2)})
    EXPECT_THAT(run_layout(run, layout).faults, IsEmpty());
}

TEST(Encoders, MemoryOfLabelledTasksIsPlanned) {
  for (const char* name : kLabelled) {
    TestRun run = family_run(name);
    run.full_rows = true;
    run.steps = 2;
    for (const run::Layout& layout :
         {data_parallel(1), tensor_parallel(2, true), pipeline(2), tensor_parallel(2, false, 2)})
      EXPECT_THAT(run_layout(run, layout).faults, IsEmpty());
  }
}

TEST(Encoders, ContextParallelismIsRefused) {
  try {
    run_layout(small_bert(), layout_of(1, 2, 1, 1, 1));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("context_parallel_size 2"));
  }
}

}  // namespace
}  // namespace stoa::layouts
