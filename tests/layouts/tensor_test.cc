// Tensor, sequence and context parallelism, alone and beside other axes, against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

struct Row {
  int tensor = 1;
  bool sequence = false;
  int context = 1;
  parallel::ContextKind kind = parallel::ContextKind::kAllGather;
  int data = 1, pipeline = 1;
  const char* schedule = "1f1b";
  int chunks = 0;
  int neighbours = 1;
  int zero = 0;

  run::Layout layout() const {
    run::Layout layout = layout_of(tensor, context, 1, data, pipeline);
    layout.sequence_parallel = sequence;
    layout.context_kind = kind;
    layout.context_neighbours = neighbours;
    layout.zero_stage = zero;
    layout.schedule = schedule;
    layout.chunks = chunks;
    return layout;
  }
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << "tp " << row.tensor << (row.sequence ? " sequence parallel" : "") << ", cp " << row.context << " "
       << name_of(row.kind) << ", zero " << row.zero << ", dp " << row.data << ", pp " << row.pipeline << " "
       << row.schedule;
}

void expect_rows_close(const TestRun& run, const std::vector<Row>& rows) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::PrintToString(row));
    EXPECT_THAT(differences(one, run_layout(run, row.layout()), kRounding), IsEmpty());
  }
}

TestRun short_run() {
  TestRun run = tiny_run();
  run.steps = 4;
  return run;
}

const std::vector<Row>& tensor_rows() {
  static const std::vector<Row> rows{{2, false}, {2, true}, {3, false}, {3, true}, {4, false}, {4, true}};
  return rows;
}

TestRun small_llama() {
  TestRun run = short_run();
  auto& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.ffn_hidden_size = 22;
  c.share_embeddings_and_output_weights = false;
  c.qk_layernorm = true;
  return run;
}

TEST(TensorParallel, TiedWithDropoutAndGroups) {
  expect_rows_close(tiny_run(), {{2, true}, {3, false}});
  expect_rows_close(short_run(), {{2, false}, {3, true}, {4, false}, {4, true}});
}

TEST(TensorParallel, GatedUntiedOneKeyHead) {
  TestRun run = small_llama();
  run.config.num_query_groups = 1;
  run.steps = 3;
  expect_rows_close(run, tensor_rows());
}

TEST(TensorParallel, PackedDocumentsWindowAllHeads) {
  TestRun run = small_llama();
  run.config.num_query_groups = 4;
  run.config.window_size = 3;
  run.packed = true;
  run.micro_batch = 2;
  run.steps = 3;
  expect_rows_close(run, tensor_rows());
}

TEST(TensorParallel, BiasesByPartAndWindowsByList) {
  TestRun run = small_llama();
  run.config.attention_output_bias = run.config.mlp_bias = true;
  run.config.window_size = 3;
  run.config.window_layers = {0};
  run.steps = 3;
  expect_rows_close(run,
                    {{2, true}, {3, false}, {2, true, 1, parallel::ContextKind::kAllGather, 2, 2, "zb-h1"}});
}

TEST(TensorParallel, ParallelResidual) {
  TestRun run = short_run();
  run.config.use_parallel_residual = true;
  expect_rows_close(run, tensor_rows());
}

TEST(TensorParallel, NormsAfterBranches) {
  TestRun run = short_run();
  for (const auto placement : {model::NormPlacement::kAfter, model::NormPlacement::kBoth}) {
    run.config.norm_placement = placement;
    expect_rows_close(run, tensor_rows());
  }
}

TEST(TensorParallel, NormsOverAllHeads) {
  for (const std::int64_t groups : {1, 2, 4}) {
    TestRun run = small_llama();
    run.config.qk_layernorm_all_heads = true;
    run.config.norm_placement = model::NormPlacement::kAfter;
    run.config.num_query_groups = groups;
    run.steps = 3;
    expect_rows_close(run, tensor_rows());
    expect_rows_close(run, {{2, true, 2}, {2, true, 1, parallel::ContextKind::kAllGather, 2, 2, "zb-h1"}});
  }
}

void make_gemma(model::ModelConfig& c) {
  c.norm_placement = model::NormPlacement::kBoth;
  c.activation = model::Activation::kGegluTanh;
  c.window_size = 4;
  c.window_attn_skip_freq = 2;
  c.rope_local_base_freq = 100;
  c.query_pre_attn_scalar = 9;
  c.attn_logit_softcapping = 2;
  c.final_logit_softcapping = 3;
  c.apply_embedding_scaling = true;
}

void make_bloom(model::ModelConfig& c) {
  c.position_embedding_type = model::PositionEmbedding::kAlibi;
  c.embedding_layernorm = true;
}

TEST(TensorParallel, CapsLocalRotationAndScaledEmbeddings) {
  TestRun run = small_llama();
  make_gemma(run.config);
  run.steps = 3;
  expect_rows_close(run, tensor_rows());
  const auto gather = parallel::ContextKind::kAllGather;
  expect_rows_close(run, {{2, true, 1, gather, 2, 2}, {1, false, 1, gather, 1, 2, "zb-h1"}});
}

TEST(TensorParallel, BiasesByDistanceAndNormedEmbeddings) {
  TestRun run = short_run();
  make_bloom(run.config);
  run.packed = true;
  run.micro_batch = 2;
  run.steps = 3;
  expect_rows_close(run, tensor_rows());
  const auto gather = parallel::ContextKind::kAllGather, exchange = parallel::ContextKind::kAllToAll;
  expect_rows_close(run, {{2, true, 1, gather, 2, 2}, {1, false, 2, gather}, {1, false, 2, exchange}});
}

TEST(TensorParallel, BesideDataAndPipeline) {
  const auto gather = parallel::ContextKind::kAllGather;
  expect_rows_close(short_run(), {{2, true, 1, gather, 2, 1},
                                  {2, false, 1, gather, 1, 2},
                                  {2, true, 1, gather, 1, 2, "zb-h1"},
                                  {2, true, 1, gather, 1, 2, "interleaved", 2},
                                  {2, true, 1, gather, 2, 2, "zb-v", 2}});
}

// Twelve tokens, so that groups of two, three and six have chunks; four heads in two groups.
TEST(ContextParallel, EveryKindBesideEveryAxis) {
  using enum parallel::ContextKind;
  for (const bool packed : {false, true}) {
    TestRun run = packed ? small_llama() : short_run();
    run.packed = packed;
    run.micro_batch = packed ? 2 : 1;
    if (packed) run.config.window_size = 5;
    run.steps = 3;
    expect_rows_close(run, {{1, false, 2, kAllGather},
                            {1, false, 3, kAllGather},
                            {1, false, 2, kAllToAll},
                            {1, false, 2, kRing},
                            {1, false, 3, kRing},
                            {1, false, 6, kRing},
                            {1, false, 6, kHierarchical, 1, 1, "1f1b", 0, 2},
                            {2, true, 2, kAllGather},
                            {2, true, 2, kRing},
                            {3, true, 2, kAllGather, 2, 1},
                            {3, true, 2, kRing, 2, 1, "1f1b", 0, 1, 1},
                            {1, false, 2, kAllToAll, 2, 2, "1f1b", 0, 1, 2},
                            {1, false, 3, kRing, 2, 1, "1f1b", 0, 1, 3},
                            {2, true, 2, kAllGather, 1, 2, "zb-h1"},
                            {2, true, 3, kRing, 1, 2, "interleaved", 2},
                            {1, false, 2, kRing, 2, 2, "zb-v", 2, 1, 2}});
  }
}

TEST(ContextParallel, SmoothedLossOfTokensWithoutLabels) {
  using enum parallel::ContextKind;
  TestRun run = short_run();
  run.masked_rows = 3;
  const RunResult plain = run_layout(run, data_parallel(1));
  run.config.label_smoothing = 0.1;
  run.config.z_loss_coeff = 1e-2;
  const RunResult smoothed = run_layout(run, data_parallel(1));
  EXPECT_GT(std::abs(smoothed.losses[0] - plain.losses[0]), 1e-2);  // else the layouts agree on nothing
  EXPECT_THAT(differences(plain, smoothed, kRounding), ::testing::Not(IsEmpty()));
  expect_rows_close(run, {{2, true, 1}, {3, false, 1}, {1, false, 3, kRing}, {2, true, 2, kRing, 1, 2}});
}

// ZeRO's stages, schedules and recomputation change no bit of a layout with context parallelism.
TEST(ContextParallel, StagesSchedulesAndRecomputationChangeNoBit) {
  using enum parallel::ContextKind;
  for (const Row& row : {Row{1, false, 2, kRing, 2}, Row{1, false, 6, kHierarchical, 1, 1, "1f1b", 0, 2},
                         Row{2, true, 2, kAllToAll}}) {
    SCOPED_TRACE(testing::PrintToString(row));
    TestRun run = short_run();
    run.steps = 3;
    run.config.num_query_groups = 4;
    const RunResult plain = run_layout(run, row.layout());
    for (const int stage : {1, 2, 3}) {
      Row other = row;
      other.zero = stage;
      other.pipeline = stage == 2 ? 2 : 1;
      run::Layout layout = other.layout();
      layout.overlap_grad_reduce = stage == 3;
      layout.bucket_bytes = 20000;
      EXPECT_THAT(differences(plain, run_layout(run, layout), 0), IsEmpty()) << "stage " << stage;
    }
    run.config.recompute = {model::RecomputeGranularity::kFull, model::RecomputeMethod::kUniform, 1};
    EXPECT_THAT(differences(plain, run_layout(run, row.layout()), 0), IsEmpty());
  }
}

TEST(TensorParallel, RecomputationAndScheduleChangeNoBit) {
  for (const Row& row : {Row{2, false}, Row{2, true}, Row{2, true, 2}}) {
    SCOPED_TRACE(testing::PrintToString(row));
    TestRun run = short_run();
    run.steps = 3;
    const RunResult kept = run_layout(run, row.layout());
    Row other = row;
    other.pipeline = 2;
    other.schedule = "zb-h1";
    EXPECT_THAT(differences(kept, run_layout(run, other.layout()), 0), IsEmpty());
    for (const auto granularity :
         {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
      run.config.recompute = {granularity, {}, {}};
      EXPECT_THAT(differences(kept, run_layout(run, row.layout()), 0), IsEmpty());
    }
  }
}

TEST(TensorParallel, WhatCannotBeSplitIsRefused) {
  EXPECT_THROW(run_layout(short_run(), Row{5, false}.layout()), ConfigError);     // 4 heads
  EXPECT_THROW(run_layout(short_run(), Row{1, false, 4}.layout()), ConfigError);  // 12 tokens in 8 chunks
  TestRun run = short_run();
  run.config.encoder_seq_length = 11;
  EXPECT_THROW(run_layout(run, Row{2, true}.layout()), ConfigError);
  run = short_run();
  run.config.num_query_groups = 1;
  EXPECT_THROW(run_layout(run, (Row{1, false, 2, parallel::ContextKind::kAllToAll}).layout()), ConfigError);
}

}  // namespace
}  // namespace stoa::layouts
