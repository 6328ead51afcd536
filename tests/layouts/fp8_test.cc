// Linear layers in 8 bits, in every layout against one rank: the scales are those of whole tensors, wherever
// their parts lie. In fp64 a sum in another order moves no number over the edge between two codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not;

TestRun fp8() {
  TestRun run = tiny_run();
  run.steps = 4;
  model::ModelConfig& c = run.config;
  c.hidden_size = 32;
  c.ffn_hidden_size = 64;
  c.fp8.fp8 = model::Fp8Format::kHybrid;
  return run;
}

// Six steps fill the history.
TestRun delayed() {
  TestRun run = fp8();
  run.steps = 6;
  run.config.fp8.fp8_recipe = model::Fp8Recipe::kDelayed;
  run.config.fp8.fp8_amax_history_len = 3;
  return run;
}

// Latents are made whole of the rows of the stream that a rank holds.
TestRun latent() {
  TestRun run = fp8();
  model::ModelConfig& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.num_query_groups = 4;
  c.share_embeddings_and_output_weights = false;
  c.latent = {true, 16, 16, 16, 16, 16};
  return run;
}

// Widths of experts that two parts share.
TestRun experts(TestRun run) {
  model::ModelConfig& c = run.config;
  c.bias = model::BiasKind::kNone;
  c.activation = model::Activation::kSwiglu;
  c.moe.num_moe_experts = 4;
  c.moe.moe_ffn_hidden_size = 32;
  c.moe.moe_shared_expert_intermediate_size = 32;
  c.moe.moe_dense_layers = {1};
  return run;
}

// `experts`: parts of an expert, groups of experts.
run::Layout experts_over(std::array<int, 4> degrees, grid::ExpertDegrees experts, bool sequence = false) {
  const auto [tensor, context, data, pipeline] = degrees;
  run::Layout layout;
  layout.grid = grid::RankGrid({tensor, context, 1, data, pipeline}, experts);
  layout.sequence_parallel = sequence;
  layout.bucket_bytes = 20000;
  return layout;
}

std::string shown_text(const run::Layout& layout) {
  const grid::RankGrid experts = layout.grid.experts();
  return fmt::format("tp {}, cp {}, dp {}, pp {}, etp {}, ep {}", layout.grid.degree(grid::Axis::kTensor),
                     layout.grid.degree(grid::Axis::kContext), layout.grid.degree(grid::Axis::kData),
                     layout.grid.degree(grid::Axis::kPipeline), experts.degree(grid::Axis::kTensor),
                     experts.degree(grid::Axis::kExpert));
}

run::Layout context_parallel(int ranks, parallel::ContextKind kind) {
  run::Layout layout = layout_of(1, ranks, 1, 1, 1);
  layout.context_kind = kind;
  return layout;
}

// Each kind, on one rank and in a pipeline, beside `one` without.
void expect_same_with_recomputation(TestRun run, const RunResult& one) {
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    run.config.recompute = {granularity, {}, {}};
    EXPECT_THAT(differences(one, run_layout(run, data_parallel(1)), 0), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(run, pipeline(2, "zb-h1")), 0), IsEmpty());
  }
}

TEST(Fp8, EveryLayoutIsTheSameRun) {
  const RunResult one = run_layout(fp8(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const bool sequence : {false, true})
    EXPECT_THAT(differences(one, run_layout(fp8(), tensor_parallel(2, sequence)), kRounding), IsEmpty())
        << "sequence parallel " << sequence;
  for (const auto kind : {parallel::ContextKind::kAllGather, parallel::ContextKind::kRing})
    EXPECT_THAT(differences(one, run_layout(fp8(), context_parallel(2, kind)), kRounding), IsEmpty())
        << name_of(kind);
  EXPECT_THAT(differences(one, run_layout(fp8(), data_parallel(2)), kRounding), IsEmpty());
  run::Layout all = layout_of(2, 2, 1, 2, 2);
  all.sequence_parallel = true;
  all.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(fp8(), all), kRounding), IsEmpty());
}

TEST(Fp8, LatentsInEveryLayout) {
  const RunResult one = run_layout(latent(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const bool sequence : {false, true})
    EXPECT_THAT(differences(one, run_layout(latent(), tensor_parallel(2, sequence)), kRounding), IsEmpty())
        << "sequence parallel " << sequence;
  EXPECT_THAT(differences(one, run_layout(latent(), pipeline(2)), 0), IsEmpty());
}

TEST(Fp8, EncoderDecodersInEveryLayout) {
  TestRun run = tiny_pairs_run();
  run.steps = 3;
  run.config.hidden_size = 32;
  run.config.ffn_hidden_size = 64;
  run.config.fp8.fp8 = model::Fp8Format::kHybrid;
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(run, tensor_parallel(2, false)), kRounding), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
}

TEST(Fp8, SchedulesStagesAndRecomputationChangeNoBit) {
  const RunResult one = run_layout(fp8(), data_parallel(1));
  for (const char* schedule : {"1f1b", "zb-h1"})
    EXPECT_THAT(differences(one, run_layout(fp8(), pipeline(2, schedule)), 0), IsEmpty()) << schedule;
  const RunResult two = run_layout(fp8(), data_parallel(2));
  for (const int stage : {1, 2, 3}) {
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    layout.bucket_bytes = 20000;
    EXPECT_THAT(differences(two, run_layout(fp8(), layout), 0), IsEmpty()) << "stage " << stage;
  }
  expect_same_with_recomputation(fp8(), one);
}

// Every key changes what is computed, and none of them much.
TEST(Fp8, WhatTheKeysSayIsDone) {
  TestRun plain = fp8();
  plain.config.fp8 = {};
  const RunResult wide = run_layout(plain, data_parallel(1)), hybrid = run_layout(fp8(), data_parallel(1));
  EXPECT_THAT(differences(wide, hybrid, 1e-5), Not(IsEmpty()));
  for (std::size_t step = 0; step < wide.losses.size(); ++step)
    EXPECT_NEAR(hybrid.losses[step], wide.losses[step], 0.02 * wide.losses[step]) << step;
  const auto expect_another = [&](const char* key, const std::function<void(model::Fp8Config&)>& set) {
    TestRun run = fp8();
    set(run.config.fp8);
    const RunResult other = run_layout(run, data_parallel(1));
    EXPECT_THAT(other.faults, IsEmpty()) << key;
    EXPECT_THAT(differences(hybrid, other, 1e-7), Not(IsEmpty())) << key;
    EXPECT_THAT(differences(wide, other, 1e-7), Not(IsEmpty())) << key;
    for (std::size_t step = 0; step < wide.losses.size(); ++step)
      EXPECT_NEAR(other.losses[step], wide.losses[step], 0.02 * wide.losses[step]) << key << ", " << step;
  };
  expect_another("fp8", [](model::Fp8Config& c) { c.fp8 = model::Fp8Format::kE4M3; });
  expect_another("fp8_margin", [](model::Fp8Config& c) { c.fp8_margin = 6; });
  expect_another("fp8_wgrad", [](model::Fp8Config& c) { c.fp8_wgrad = false; });
  expect_another("first_last_layers_bf16", [](model::Fp8Config& c) { c.first_last_layers_bf16 = true; });
  TestRun none = fp8();
  none.config.fp8.first_last_layers_bf16 = true;
  none.config.fp8.num_layers_at_start_in_bf16 = none.config.fp8.num_layers_at_end_in_bf16 = 2;
  EXPECT_THAT(differences(wide, run_layout(none, data_parallel(1)), 0), IsEmpty());
  none.config.fp8.num_layers_at_end_in_bf16 = 1;
  EXPECT_THAT(differences(run_layout(none, data_parallel(1)), run_layout(none, pipeline(2)), 0), IsEmpty());
}

TEST(Fp8, DelayedScalesInEveryLayout) {
  const RunResult one = run_layout(delayed(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  ASSERT_EQ(one.histories.size(), 4u * 4);  // of 4 layers
  for (const auto& [name, values] : one.histories)
    for (const double amax : values) EXPECT_GT(amax, 0) << name;
  for (const bool sequence : {false, true})
    EXPECT_THAT(differences(one, run_layout(delayed(), tensor_parallel(2, sequence)), kRounding), IsEmpty())
        << "sequence parallel " << sequence;
  EXPECT_THAT(
      differences(one, run_layout(delayed(), context_parallel(2, parallel::ContextKind::kRing)), kRounding),
      IsEmpty());
  run::Layout sharded = data_parallel(2);
  sharded.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(delayed(), sharded), kRounding), IsEmpty());
  run::Layout all = layout_of(2, 2, 1, 2, 2);
  all.sequence_parallel = true;
  all.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(delayed(), all), kRounding), IsEmpty());
  // A scale is not that of a microbatch.
  TestRun pairs = delayed();
  pairs.micro_batch = 2;
  EXPECT_THAT(differences(one, run_layout(pairs, data_parallel(1)), kRounding), IsEmpty());
}

TEST(Fp8, DelayedScalesInEverySchedule) {
  const RunResult one = run_layout(delayed(), data_parallel(1));
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
    EXPECT_THAT(differences(one, run_layout(delayed(), pipeline(2, schedule)), 0), IsEmpty()) << schedule;
  EXPECT_THAT(differences(one, run_layout(delayed(), pipeline(2, "interleaved", 2)), 0), IsEmpty());
  const RunResult two = run_layout(delayed(), data_parallel(2));
  run::Layout layout = data_parallel(2);
  layout.zero_stage = 3;
  layout.bucket_bytes = 20000;
  EXPECT_THAT(differences(two, run_layout(delayed(), layout), 0), IsEmpty());
  expect_same_with_recomputation(delayed(), one);
}

// The first step has the scale 1; a scale lags behind what it scales, and what it does not reach saturates.
TEST(Fp8, DelayedScalesAreOfEarlierSteps) {
  const auto of = [](std::int64_t steps, const std::function<void(model::Fp8Config&)>& set = {}) {
    TestRun run = delayed();
    run.steps = steps;
    if (set) set(run.config.fp8);
    return run_layout(run, data_parallel(1));
  };
  const RunResult two = of(2), three = of(3);
  for (const auto& [name, later] : three.histories)
    for (const std::size_t i : {1, 2, 4, 5, 7, 8}) EXPECT_EQ(later[i], two.histories.at(name)[i - 1]) << name;
  TestRun plain = delayed();
  plain.config.fp8 = {};
  const RunResult wide = run_layout(plain, data_parallel(1)), narrow = of(6);
  for (std::size_t step = 0; step < wide.losses.size(); ++step)
    EXPECT_NEAR(narrow.losses[step], wide.losses[step], 0.02 * wide.losses[step]) << step;
  const auto expect_another = [&](const char* key, const std::function<void(model::Fp8Config&)>& set) {
    EXPECT_THAT(differences(narrow, of(6, set), 1e-7), Not(IsEmpty())) << key;
  };
  expect_another("fp8_recipe", [](auto& c) { c.fp8_recipe = model::Fp8Recipe::kTensorwise; });
  expect_another("fp8_margin", [](auto& c) { c.fp8_margin = 6; });
  expect_another("fp8_amax_compute_algo",
                 [](auto& c) { c.fp8_amax_compute_algo = model::Fp8AmaxAlgorithm::kMostRecent; });
  const RunResult short_one = of(6, [](auto& c) { c.fp8_amax_history_len = 1; });
  EXPECT_EQ(short_one.histories.begin()->second.size(), 3u);
  // Of one step both algorithms know the same.
  EXPECT_THAT(differences(short_one,
                          of(6,
                             [](auto& c) {
                               c.fp8_amax_history_len = 1;
                               c.fp8_amax_compute_algo = model::Fp8AmaxAlgorithm::kMostRecent;
                             }),
                          0),
              IsEmpty());
}

TEST(Fp8, SkippedStepsAreNotInAHistory) {
  TestRun run = delayed();
  run.before = [](int, run::TrainingRank& rank) {
    run::StepScalars scalars = rank.read_scalars();
    scalars.slots[static_cast<std::size_t>(ops::StepSlot::kLossScale)] = 1e308;  // gradients overflow
    rank.write_scalars(scalars);
  };
  for (const run::Layout& layout : {data_parallel(1), pipeline(2)}) {
    const RunResult result = run_layout(run, layout);
    ASSERT_EQ(result.histories.size(), 16u);
    for (const auto& [name, values] : result.histories)
      for (const double amax : values) EXPECT_EQ(amax, 0) << name;
  }
}

// Of a microbatch, wherever its tokens and its experts are.
TEST(Fp8, ExpertsInEveryLayout) {
  const TestRun run = experts(fp8());
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const bool sequence : {false, true})
    for (const auto& degrees : std::vector<grid::ExpertDegrees>{{2, 1}, {1, 2}, {1, 1}})
      EXPECT_THAT(differences(one, run_layout(run, experts_over({2, 1, 1, 1}, degrees, sequence)), kRounding),
                  IsEmpty())
          << "etp " << degrees.tensor << ", ep " << degrees.expert << ", sequence parallel " << sequence;
  for (const auto& layout : {experts_over({1, 2, 1, 1}, {1, 1}), experts_over({1, 2, 1, 1}, {1, 2}),
                             experts_over({2, 2, 1, 1}, {2, 2}), experts_over({2, 2, 1, 1}, {1, 2}, true),
                             experts_over({1, 1, 2, 2}, {1, 1}), experts_over({2, 1, 1, 2}, {1, 2}, true)})
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty()) << shown_text(layout);
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
  expect_same_with_recomputation(run, one);
  // Data-parallel ranks that share experts have microbatches of several samples in them: another scale.
  const RunResult shared = run_layout(run, experts_over({1, 1, 2, 1}, {1, 2}));
  EXPECT_THAT(shared.faults, IsEmpty());
  for (std::size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(shared.losses[step], one.losses[step], 0.02 * one.losses[step]) << step;
}

TEST(Fp8, ExpertsAreInEightBits) {
  const TestRun all = experts(fp8());
  TestRun wide = all;
  wide.config.fp8 = {};
  const RunResult eight = run_layout(all, data_parallel(1)), plain = run_layout(wide, data_parallel(1));
  for (std::size_t step = 0; step < eight.losses.size(); ++step)
    EXPECT_NEAR(eight.losses[step], plain.losses[step], 0.02 * plain.losses[step]) << step;
  TestRun other = all;
  other.config.fp8.fp8_wgrad = false;
  const RunResult weights = run_layout(other, data_parallel(1));
  for (const char* name : {"layers.0.moe.experts.1.gate.weight", "layers.0.moe.experts.1.down.weight"})
    EXPECT_NE(weights.gradients.at(name), eight.gradients.at(name)) << name;
  other = all;
  other.config.moe.moe_ffn_hidden_size = 24;
  try {
    run_layout(other, data_parallel(1));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("fp8: 'layers.0.moe.experts.down' is [32, 24] on a rank, expected "
                                        "multiples of 16"));
  }
}

TEST(Fp8, DelayedScalesOfExpertsInEveryLayout) {
  const TestRun run = experts(delayed());
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  // 2 of attention and 2 of shared experts or of the MLP each, and 2 of 4 experts in 3 layers.
  ASSERT_EQ(one.histories.size(), 4u * 4 + 3 * 4 * 2);
  ASSERT_TRUE(one.histories.contains("fp8.amax/layers.0.moe.experts.3.gate_up"));
  for (const auto& layout :
       {experts_over({1, 1, 2, 1}, {1, 2}), experts_over({1, 1, 2, 1}, {2, 1}),
        experts_over({1, 1, 4, 1}, {2, 2}), experts_over({1, 1, 4, 1}, {1, 2}),
        experts_over({1, 1, 2, 2}, {1, 2}), experts_over({2, 1, 1, 1}, {1, 1}),
        experts_over({2, 1, 1, 1}, {1, 2}, true), experts_over({2, 1, 2, 1}, {2, 2}, true),
        experts_over({1, 2, 1, 1}, {1, 2}), experts_over({2, 2, 1, 1}, {1, 4})})
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty()) << shown_text(layout);
  for (const char* schedule : {"1f1b", "zb-h1"})
    EXPECT_THAT(differences(one, run_layout(run, pipeline(2, schedule)), 0), IsEmpty()) << schedule;
  expect_same_with_recomputation(run, one);
  TestRun pairs = run;
  pairs.micro_batch = 2;
  EXPECT_THAT(differences(one, run_layout(pairs, data_parallel(1)), kRounding), IsEmpty());
}

// 12 tokens choose one of 16 experts each: some get none in any step.
TEST(Fp8, ExpertsWithoutTokensKeepTheirScales) {
  const auto of = [](std::int64_t steps, const run::Layout& layout) {
    TestRun run = experts(delayed());
    run.steps = steps;
    run.rows = 1;
    run.config.moe.num_moe_experts = 16;
    run.config.moe.moe_router_topk = 1;
    return run_layout(run, layout);
  };
  const RunResult two = of(2, data_parallel(1)), three = of(3, data_parallel(1));
  EXPECT_THAT(three.faults, IsEmpty());
  for (const double loss : three.losses) EXPECT_TRUE(std::isfinite(loss));
  int kept = 0, moved = 0;
  for (const auto& [name, later] : three.histories) {
    if (name.find(".moe.experts.") == std::string::npos) continue;
    const auto& before = two.histories.at(name);
    for (const std::size_t tensor : {0, 1, 2}) {
      const auto at = [&](const std::vector<double>& values, std::size_t i) {
        return values[3 * tensor + i];
      };
      const bool same = at(later, 0) == at(before, 0) && at(later, 1) == at(before, 1);
      if (!same) {
        EXPECT_EQ(at(later, 1), at(before, 0)) << name;
        EXPECT_GT(at(later, 0), 0) << name;
      }
      if (tensor == 1)
        EXPECT_FALSE(same) << name << ": matrices are there in every step";
      else
        ++(same ? kept : moved);
    }
  }
  EXPECT_GE(kept, 3 * 2 * 2 * 4);  // of 3 layers, 2 matrices, 2 tensors: at least 4 experts
  EXPECT_GT(moved, 0);
  for (const auto& layout : {experts_over({1, 1, 1, 2}, {1, 1}), experts_over({1, 2, 1, 1}, {1, 2})})
    EXPECT_THAT(differences(three, of(3, layout), kRounding), IsEmpty()) << shown_text(layout);
}

TEST(Fp8, SizesThatProductsDoNotTakeAreRefused) {
  TestRun run = fp8();
  run.config.ffn_hidden_size = 40;
  try {
    run_layout(run, data_parallel(1));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("fp8: 'layers.0.mlp.up' is [40, 32] on a rank, expected multiples of 16"));
  }
}

}  // namespace
}  // namespace stoa::layouts
