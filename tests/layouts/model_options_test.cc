// The options by which families differ in a few lines, in every layout, against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using testing::IsEmpty;

run::Layout tensor(int ranks, bool sequence, int data = 1, int stages = 1) {
  run::Layout layout = layout_of(ranks, 1, 1, data, stages);
  layout.sequence_parallel = sequence;
  return layout;
}
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
  std::vector<run::Layout> close{tensor(2, false), tensor(2, true), tensor(4, true), data_parallel(2),
                                 tensor(2, true, 2, 2)};
  if (context) close.push_back(ring(2));
  for (const run::Layout& layout : close) {
    SCOPED_TRACE(run::rank_name(layout.grid, layout.grid.size() - 1));
    EXPECT_THAT(differences(one, run_layout(run, layout), 1e-9), IsEmpty());
  }
  for (const run::Layout& layout : {pipeline(2), pipeline(2, "interleaved", 2), pipeline(2, "zb-v")})
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

TestRun gpt() {
  TestRun run = tiny_run();
  run.steps = 3;
  run.rows = 4;
  return run;
}

TestRun llama() {
  TestRun run = gpt();
  model::ModelConfig& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.ffn_hidden_size = 24;
  c.share_embeddings_and_output_weights = false;
  return run;
}

TEST(ModelOptions, Multipliers) {
  TestRun run = llama();
  run.config.embedding_multiplier = 3;
  run.config.residual_multiplier = 0.4;
  run.config.softmax_scale = 0.7;
  run.config.logit_scale = 0.6;
  expect_same_run(run);
  run.config.share_embeddings_and_output_weights = true;
  run.config.moe.num_moe_experts = 4;
  run.config.moe.moe_ffn_hidden_size = 12;
  expect_same_run(run);
}

TEST(ModelOptions, OneNormForBothBranches) {
  TestRun run = gpt();
  run.config.use_parallel_residual = true;
  run.config.num_ln_in_parallel_attn = 1;
  run.config.norm_bias = false;
  run.config.residual_multiplier = 0.7;
  expect_same_run(run);
}

TEST(ModelOptions, NormsWithoutParameters) {
  TestRun run = gpt();
  run.config.norm_weight = run.config.norm_bias = false;
  expect_same_run(run);
}

TEST(ModelOptions, FirstPositionAndHeadBias) {
  TestRun run = gpt();
  run.config.first_position = 2;
  run.config.lm_head_bias = true;
  expect_same_run(run);
}

TEST(ModelOptions, NormsAfterRotationAndLayersWithoutIt) {
  TestRun run = llama();
  run.config.qk_layernorm = run.config.qk_layernorm_after_rope = true;
  run.config.no_rope_layers = {1, 2};
  run.config.window_size = 5;
  run.config.window_layers = {0, 2};
  run.packed = true;
  run.micro_batch = 2;
  expect_same_run(run);
}

TEST(ModelOptions, GatedSharedExpert) {
  TestRun run = llama();
  run.config.moe.num_moe_experts = 4;
  run.config.moe.moe_ffn_hidden_size = 12;
  run.config.moe.moe_shared_expert_intermediate_size = 8;
  run.config.moe.moe_shared_expert_gate = true;
  run.config.residual_multiplier = 0.7;
  expect_same_run(run);
  run::Layout spread;
  spread.grid = grid::RankGrid({2, 1, 1, 2, 1}, {1, 4});
  spread.sequence_parallel = true;
  EXPECT_THAT(differences(run_layout(run, data_parallel(1)), run_layout(run, spread), 1e-9), IsEmpty());
}

TestRun encoder() {
  TestRun run = gpt();
  model::ModelConfig& c = run.config;
  c.kind = model::ModelKind::kBert;
  c.num_query_groups.reset();
  c.activation = model::Activation::kGelu;
  c.bert.binary_head = false;
  run.micro_batch = 2;
  return run;
}

// ModernBERT's.
TEST(ModelOptions, EncoderOfWindowsAndNormsBeforeBranches) {
  TestRun run = encoder();
  model::ModelConfig& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.bert.pre_norm = true;
  c.bert.num_token_types = 0;
  c.window_size = 3;
  c.window_layers = {1, 3};
  c.rope_local_base_freq = 100;
  expect_same_run(run, false);
}

// MPNet's, with RoBERTa's positions.
TEST(ModelOptions, EncoderOfBiasesByDistance) {
  TestRun run = encoder();
  run.config.bert.relative_attention_num_buckets = 8;
  run.config.bert.first_position = 2;
  expect_same_run(run, false);
}

// umT5's.
TEST(ModelOptions, BiasesByDistanceOfEachLayer) {
  TestRun run = tiny_pairs_run();
  run.steps = 3;
  run.config.t5.relative_bias_per_layer = true;
  expect_same_run(run, false);
}

}  // namespace
}  // namespace stoa::layouts
