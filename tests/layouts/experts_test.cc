// Layers with experts in every layout, whole or spread over ranks. What the router's losses pool is a
// sequence, so they too are the same in every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TestRun experts() {
  TestRun run = tiny_run();
  run.steps = 8;
  run.rows = 4;
  model::ModelConfig& c = run.config;
  c.bias = model::BiasKind::kNone;
  c.activation = model::Activation::kSwiglu;
  c.ffn_hidden_size = 24;
  c.moe.num_moe_experts = 4;
  c.moe.moe_ffn_hidden_size = 12;
  c.moe.moe_shared_expert_intermediate_size = 8;
  c.moe.moe_aux_loss_coeff = 0.02;
  c.moe.moe_z_loss_coeff = 0.001;
  c.moe.moe_dense_layers = {1};
  return run;
}

TEST(Experts, SchedulesChangeNoBit) {
  const RunResult one = run_layout(experts(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(experts(), pipeline(2)), 0), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(experts(), pipeline(2, "interleaved", 2)), 0), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(experts(), pipeline(2, "zb-v", 2)), 0),
              IsEmpty());  // split backward
}

TEST(Experts, RecomputationChangesNoBit) {
  const RunResult kept = run_layout(experts(), data_parallel(1));
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    TestRun run = experts();
    run.config.recompute = {granularity, model::RecomputeMethod::kUniform, 1};
    if (granularity == model::RecomputeGranularity::kSelective) run.config.recompute = {granularity, {}, {}};
    EXPECT_THAT(differences(kept, run_layout(run, data_parallel(1)), 0), IsEmpty());
    EXPECT_THAT(differences(kept, run_layout(run, pipeline(2, "zb-h1")), 0), IsEmpty());
  }
}

TEST(Experts, ReplicasAgreeToRoundingAndStagesBitForBit) {
  const RunResult one = run_layout(experts(), data_parallel(1)),
                  two = run_layout(experts(), data_parallel(2));
  EXPECT_THAT(differences(one, two, 1e-9), IsEmpty());
  for (const int stage : {1, 2, 3}) {
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    EXPECT_THAT(differences(two, run_layout(experts(), layout), 0), IsEmpty()) << "stage " << stage;
  }
}

struct Spread {
  int tensor = 1;
  bool sequence = false;
  int context = 1, data = 1, pipeline = 1;
  grid::ExpertDegrees experts = {};  // parts of an expert, groups of experts
  const char* schedule = "1f1b";
  int chunks = 0;
  parallel::ContextKind kind = parallel::ContextKind::kAllGather;

  run::Layout layout(int zero_stage = 0) const {
    run::Layout layout;
    layout.grid = grid::RankGrid({tensor, context, 1, data, pipeline}, experts);
    layout.sequence_parallel = sequence;
    layout.context_kind = kind;
    layout.schedule = schedule;
    layout.chunks = chunks;
    layout.zero_stage = zero_stage;
    layout.bucket_bytes = 20000;
    return layout;
  }
};

void PrintTo(const Spread& row, std::ostream* out) {
  *out << "tp " << row.tensor << (row.sequence ? " sequence parallel" : "") << ", cp " << row.context
       << ", dp " << row.data << ", pp " << row.pipeline << ", etp " << row.experts.tensor << ", ep "
       << row.experts.expert << " " << row.schedule;
}

void expect_same_run(const TestRun& run, const std::vector<Spread>& rows) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const Spread& row : rows) {
    SCOPED_TRACE(testing::PrintToString(row));
    EXPECT_THAT(differences(one, run_layout(run, row.layout()), 1e-9), IsEmpty());
  }
}

TEST(ExpertParallel, OverReplicas) {
  TestRun run = experts();
  run.steps = 20;
  expect_same_run(run, {{.data = 2, .experts = {1, 2}}, {.data = 2, .experts = {2, 1}}});
  run.steps = 4;
  expect_same_run(run, {{.data = 4, .experts = {1, 2}},
                        {.data = 4, .experts = {1, 4}},
                        {.data = 4, .experts = {2, 2}},
                        {.data = 4, .experts = {4, 1}},
                        {.data = 2, .pipeline = 2, .experts = {1, 2}}});
}

TEST(ExpertParallel, OverTensorRanksWithAndWithoutSequenceParallelism) {
  TestRun run = experts();
  run.steps = 4;
  for (const bool sequence : {false, true})
    expect_same_run(run, {{.tensor = 2, .sequence = sequence},
                          {.tensor = 2, .sequence = sequence, .experts = {1, 1}},
                          {.tensor = 2, .sequence = sequence, .experts = {1, 2}},
                          {.tensor = 4, .sequence = sequence, .experts = {2, 2}},
                          {.tensor = 2, .sequence = sequence, .data = 2, .experts = {2, 2}},
                          {.tensor = 2, .sequence = sequence, .data = 2, .experts = {1, 4}}});
  run.config.encoder_seq_length = 13;  // 13 tokens on 2 and 4 ranks
  expect_same_run(run, {{.tensor = 2, .experts = {1, 2}}, {.tensor = 4, .experts = {1, 4}}});
}

// The sequences whose assignments the balance loss counts are spread over ranks of both axes.
TEST(ExpertParallel, BesideContextParallelism) {
  TestRun run = experts();
  run.steps = 4;
  run.micro_batch = 2;
  run.packed = true;
  expect_same_run(run, {{.context = 2},
                        {.context = 2, .experts = {1, 2}},
                        {.context = 2, .data = 2, .experts = {1, 4}},
                        {.context = 2, .experts = {1, 2}, .kind = parallel::ContextKind::kAllToAll},
                        {.tensor = 2, .sequence = true, .context = 3, .experts = {1, 2}},
                        {.tensor = 2, .context = 2, .data = 2, .experts = {2, 4}}});
}

TEST(ExpertParallel, SigmoidScoresInGroupsBalancedByABias) {
  TestRun run = experts();
  run.steps = 4;
  auto& moe = run.config.moe;
  moe.num_moe_experts = 8;
  moe.moe_router_topk = 3;
  moe.moe_router_score_function = model::RouterScoreFunction::kSigmoid;
  moe.moe_router_num_groups = 4;
  moe.moe_router_group_topk = 2;
  moe.moe_router_topk_scaling_factor = 1.5;
  moe.moe_router_enable_expert_bias = true;  // counts of a step's global batch move the choices of the next
  moe.moe_router_bias_update_rate = 0.05;
  moe.moe_ffn_hidden_size = 11;  // parts of 4, 4, 3
  expect_same_run(run, {{.data = 4, .experts = {1, 4}},
                        {.tensor = 3, .sequence = true},
                        {.tensor = 3, .data = 2, .experts = {3, 2}}});
}

TestRun small_gpt_oss() { return family_run("gpt-oss"); }

// Sinks go with their heads, and enter once where keys are spread; biases of an expert's output are added
// once where the expert is split.
TEST(GptOss, IsTheSameInEveryLayout) {
  TestRun run = small_gpt_oss();
  expect_same_run(run, {{.data = 2},
                        {.data = 2, .experts = {1, 2}},
                        {.data = 2, .experts = {2, 1}},
                        {.tensor = 2},
                        {.tensor = 2, .sequence = true},
                        {.tensor = 2, .sequence = true, .experts = {1, 2}},
                        {.tensor = 2, .data = 2, .experts = {2, 2}},
                        {.data = 2, .pipeline = 2, .experts = {1, 2}}});
  run.micro_batch = 2;
  run.packed = true;
  expect_same_run(run, {{.context = 2},
                        {.context = 2, .kind = parallel::ContextKind::kRing},
                        {.context = 2, .experts = {1, 2}, .kind = parallel::ContextKind::kAllToAll},
                        {.tensor = 2, .sequence = true, .context = 2, .kind = parallel::ContextKind::kRing}});
}

TEST(GptOss, SchedulesStagesAndRecomputationChangeNoBit) {
  const RunResult one = run_layout(small_gpt_oss(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const run::Layout& layout : {pipeline(2), with_spread_layers(pipeline(3), 4), pipeline(4),
                                    pipeline(2, "zb-v", 2), with_spread_layers(pipeline(3, "zb-v"), 4)})
    EXPECT_THAT(differences(one, run_layout(small_gpt_oss(), layout), 0), IsEmpty()) << layout.schedule;
  TestRun again = small_gpt_oss();
  again.config.recompute = {model::RecomputeGranularity::kFull, model::RecomputeMethod::kUniform, 1};
  EXPECT_THAT(differences(one, run_layout(again, data_parallel(1)), 0), IsEmpty());
  const RunResult two = run_layout(small_gpt_oss(), data_parallel(2));
  for (const int stage : {1, 3}) {
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    EXPECT_THAT(differences(two, run_layout(small_gpt_oss(), layout), 0), IsEmpty()) << "stage " << stage;
  }
}

// What an expert takes of a sequence is the same, wherever the sequence's tokens are.
TEST(ExpertCapacity, DropsTheSameInEveryLayout) {
  TestRun run = experts();
  run.steps = 4;
  run.micro_batch = 2;
  run.config.moe.moe_expert_capacity_factor = 0.8;
  const RunResult dropless = run_layout(experts(), data_parallel(1));
  for (const auto policy : {model::TokenDropPolicy::kProbs, model::TokenDropPolicy::kPosition}) {
    run.config.moe.moe_token_drop_policy = policy;
    EXPECT_THAT(differences(dropless, run_layout(run, data_parallel(1)), 1e-9), ::testing::Not(IsEmpty()));
    expect_same_run(run, {{.data = 2, .experts = {1, 2}},
                          {.data = 2, .experts = {2, 1}},
                          {.tensor = 2},
                          {.tensor = 2, .sequence = true, .experts = {1, 2}},
                          {.tensor = 2, .data = 2, .experts = {2, 2}},
                          {.context = 2, .experts = {1, 2}},
                          {.context = 3, .data = 2, .experts = {1, 2}},  // pairs of ranks across samples
                          {.tensor = 2, .sequence = true, .context = 2, .data = 2, .experts = {1, 4}}});
  }
}

TEST(ExpertCapacity, SchedulesRecomputationAndStagesChangeNoBit) {
  TestRun run = experts();
  run.steps = 4;
  run.rows = 8;
  run.config.moe.moe_expert_capacity_factor = 1.0;
  const Spread row{.data = 2, .experts = {1, 2}};
  const RunResult plain = run_layout(run, row.layout());
  ASSERT_THAT(plain.faults, IsEmpty());
  for (const int stage : {1, 3})
    EXPECT_THAT(differences(plain, run_layout(run, row.layout(stage)), 0), IsEmpty()) << "stage " << stage;
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    run.config.recompute = {granularity, {}, {}};
    Spread split = row;
    split.pipeline = 2;
    split.schedule = "zb-h1";
    EXPECT_THAT(differences(plain, run_layout(run, split.layout(1)), 0), IsEmpty());
  }
}

// Memory has the size of the capacity anyway.
TEST(ExpertCapacity, PaddingChangesNoBitAndNoByte) {
  TestRun run = experts();
  run.steps = 4;
  run.rows = 8;
  run.config.moe.moe_expert_capacity_factor = 0.8;
  for (const Spread& spread : {Spread{}, Spread{.data = 2, .experts = {1, 2}},
                               Spread{.tensor = 2, .sequence = true, .context = 2, .experts = {1, 2}}}) {
    RunResult results[2];
    std::size_t bytes[2] = {};
    for (const bool pad : {false, true}) {
      run.config.moe.moe_pad_expert_input_to_capacity = pad;
      run.before = [&](int rank, run::TrainingRank& training) {
        if (rank == 0)
          for (const auto& entry : training.arena().entries()) bytes[pad] += entry.spec.bytes();
      };
      results[pad] = run_layout(run, spread.layout());
      ASSERT_THAT(results[pad].faults, IsEmpty());
    }
    EXPECT_THAT(differences(results[0], results[1], 0), IsEmpty());
    EXPECT_EQ(bytes[0], bytes[1]);
  }
}

// All tokens alike: without a capacity one rank's experts would get all of them, and memory is for that.
TEST(ExpertCapacity, BoundsMemory) {
  const auto bytes = [](std::optional<double> factor) {
    TestRun run = experts();
    run.steps = 1;
    run.rows = 8;
    run.config.moe.moe_expert_capacity_factor = factor;
    std::size_t total = 0;
    run.before = [&](int rank, run::TrainingRank& training) {
      if (rank == 0)
        for (const auto& entry : training.arena().entries()) total += entry.spec.bytes();
    };
    const RunResult result = run_layout(run, Spread{.data = 4, .experts = {1, 4}}.layout());
    EXPECT_THAT(result.faults, IsEmpty());
    return total;
  };
  EXPECT_LT(bytes(1.0), bytes(4.0));
  EXPECT_EQ(bytes(4.0), bytes(100.0));  // more than all tokens cannot come
}

TEST(ExpertParallel, RanksToWhichNobodySends) {
  TestRun run = experts();
  run.steps = 3;
  run.config.encoder_seq_length = 2;
  run.config.moe.num_moe_experts = 16;
  run.config.moe.moe_router_topk = 1;
  run.config.moe.moe_shared_expert_intermediate_size.reset();
  expect_same_run(run, {{.data = 4, .experts = {1, 4}}, {.tensor = 2, .data = 2, .experts = {1, 4}}});
}

TEST(ExpertParallel, SchedulesRecomputationAndStagesChangeNoBit) {
  TestRun run = experts();
  run.steps = 4;
  for (const Spread& row : {Spread{.data = 4, .experts = {1, 2}}, Spread{.data = 2, .experts = {2, 1}},
                            Spread{.tensor = 2, .sequence = true, .data = 2, .experts = {1, 2}}}) {
    SCOPED_TRACE(testing::PrintToString(row));
    run.rows = 8;
    run.config.recompute = {};
    const RunResult plain = run_layout(run, row.layout());
    ASSERT_THAT(plain.faults, IsEmpty());
    for (const int stage : {1, 2, 3}) {
      EXPECT_THAT(differences(plain, run_layout(run, row.layout(stage)), 0), IsEmpty()) << "stage " << stage;
      run::Layout overlapped = row.layout(stage);
      overlapped.overlap_grad_reduce = true;
      EXPECT_THAT(differences(plain, run_layout(run, overlapped), 0), IsEmpty()) << "stage " << stage;
    }
    for (const auto& [schedule, chunks] :
         {std::pair{"interleaved", 2}, std::pair{"zb-v", 2}, std::pair{"zb-h1", 0}}) {
      Spread other = row;
      other.pipeline = 2;
      other.schedule = schedule;
      other.chunks = chunks;
      EXPECT_THAT(differences(plain, run_layout(run, other.layout(1)), 0), IsEmpty()) << schedule;
    }
    for (const auto granularity :
         {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
      run.config.recompute = {granularity, {}, {}};
      EXPECT_THAT(differences(plain, run_layout(run, row.layout()), 0), IsEmpty());
      Spread split = row;
      split.pipeline = 2;
      split.schedule = "zb-h1";
      EXPECT_THAT(differences(plain, run_layout(run, split.layout(2)), 0), IsEmpty());
    }
  }
}

TEST(ExpertParallel, EveryAxisAtOnce) {
  TestRun run = experts();
  run.rows = 8;
  run.steps = 20;
  const Spread all{.tensor = 2,
                   .sequence = true,
                   .context = 2,
                   .data = 2,
                   .pipeline = 2,
                   .experts = {1, 2},
                   .schedule = "interleaved",
                   .chunks = 2};
  const RunResult one = run_layout(run, data_parallel(1));
  EXPECT_THAT(differences(one, run_layout(run, all.layout(1)), 1e-9), IsEmpty());
  Spread parts = all;
  parts.experts = {2, 4};
  EXPECT_THAT(differences(one, run_layout(run, parts.layout(1)), 1e-9), IsEmpty());
}

TEST(ExpertParallel, WhatCannotBeSpreadIsRefused) {
  EXPECT_THROW(run_layout(experts(), (Spread{.data = 3, .experts = {1, 3}}).layout()), ConfigError);  // of 4
  EXPECT_THROW((Spread{.data = 2, .experts = {1, 4}}).layout(), ConfigError);
  TestRun run = experts();
  run.config.moe.moe_ffn_hidden_size = 1;
  EXPECT_THROW(run_layout(run, (Spread{.data = 2, .experts = {2, 1}}).layout()), ConfigError);
}

}  // namespace
}  // namespace stoa::layouts
