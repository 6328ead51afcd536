// Distillation over the ranks of layouts: a teacher of another shape, whose predictions are compared with the
// model's, gives the same losses and gradients on every layout as on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ops::DivergenceKind;
using ::testing::IsEmpty;

// Wider and deeper than the model, of another family.
model::ModelSpec teacher_model() {
  model::ModelConfig c = tiny_run().config;
  c.num_layers = 6;
  c.hidden_size = 24;
  c.ffn_hidden_size = 32;
  c.num_query_groups.reset();
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.share_embeddings_and_output_weights = false;
  c.seed = 99;
  c.init_method_std = 0.3;
  model::ModelSpec spec = model::resolve_model(c);
  spec.config.freeze = {"*"};
  return spec;
}

TestRun distillation(DivergenceKind kind, double temperature, double cross_entropy_weight) {
  TestRun run = tiny_run();
  run.config.hidden_dropout = run.config.attention_dropout = run.config.embedding_dropout = 0;
  run.steps = 3;
  run.teacher = run::TeacherOptions{
      teacher_model(),
      {{kind, temperature, kind == DivergenceKind::kMixture ? 0.3 : 0.5}, cross_entropy_weight}};
  return run;
}

struct DistillationCase {
  const char* name;
  TestRun run;
};
std::vector<DistillationCase> distillations() {
  DistillationCase packed{"reverse, packed rows", distillation(DivergenceKind::kReverse, 1.5, 0)};
  packed.run.packed = true;
  DistillationCase capped{"forward, capped logits", distillation(DivergenceKind::kForward, 1, 0)};
  capped.run.config.final_logit_softcapping = 2;
  return {{"forward", distillation(DivergenceKind::kForward, 2, 0.5)},
          packed,
          capped,
          {"mixture", distillation(DivergenceKind::kMixture, 1, 0)}};
}

std::vector<run::Layout> all_layouts() {
  run::Layout zero = layout_of(1, 1, 1, 2, 2), each = layout_of(2, 2, 1, 1, 1);
  zero.zero_stage = 3;
  each.reduce_each_microbatch = true;
  return {data_parallel(2),
          tensor_parallel(2, false),
          tensor_parallel(2, true),
          tensor_parallel(4, true),
          pipeline(2),
          pipeline(2, "interleaved", 2),
          pipeline(2, "zb-v", 2),
          zero,
          each,
          layout_of(1, 2, 1, 1, 1),
          layout_of(2, 2, 1, 2, 2)};
}

TEST(Distillation, LayoutsLikeOneRank) {
  for (const DistillationCase& c : distillations()) {
    SCOPED_TRACE(c.name);
    const RunResult one = run_layout(c.run, data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    for (const double loss : one.losses) EXPECT_GT(loss, 0);
    ASSERT_EQ(one.divergences.size(), 4U);  // of three steps and the evaluation
    for (const double divergence : one.divergences) EXPECT_GT(divergence, 0);
    for (const run::Layout& layout : all_layouts()) {
      SCOPED_TRACE(::testing::Message() << layout.grid.size() << " ranks, " << layout.schedule);
      const RunResult other = run_layout(c.run, layout);
      EXPECT_THAT(other.faults, IsEmpty());
      EXPECT_THAT(differences(one, other, kRounding), IsEmpty());
    }
  }
}

// The loss is the divergence and the weighted cross entropy; the evaluation, of the same rows before a step
// that changes nothing, finds the divergence of that step and the cross entropy.
TEST(Distillation, TheLossHasTwoParts) {
  TestRun run = distillation(DivergenceKind::kForward, 2, 0.5);
  run.steps = 1;
  run.rate = 0;
  run.batches = [](std::int64_t) { return batch_of(distillation(DivergenceKind::kForward, 2, 0.5), 0); };
  const RunResult result = run_layout(run, data_parallel(1));
  const auto tokens = static_cast<double>(run.batches(0).valid_tokens);
  ASSERT_EQ(result.divergences.size(), 2U);
  EXPECT_NEAR(result.divergences[0], result.divergences[1], 1e-9 * result.divergences[0]);
  EXPECT_NEAR(result.losses.front(), result.divergences[0] / tokens + 0.5 * result.evaluation, 1e-9);
}

// The same by predictions that were kept: their likeliest tokens, and the rest as one.
TEST(Distillation, ByKeptPredictionsLikeOneRank) {
  for (DistillationCase c : distillations()) {
    SCOPED_TRACE(c.name);
    for (const std::int64_t top : {4, 61}) {
      SCOPED_TRACE(top);
      c.run.kept = run::TrainingOptions::Kept{top, c.run.teacher ? c.run.teacher->loss : c.run.kept->loss};
      c.run.teacher.reset();
      const RunResult one = run_layout(c.run, data_parallel(1));
      EXPECT_THAT(one.faults, IsEmpty());
      for (const double divergence : one.divergences) EXPECT_GT(divergence, 0);
      for (const run::Layout& layout : all_layouts()) {
        SCOPED_TRACE(::testing::Message() << layout.grid.size() << " ranks, " << layout.schedule);
        const RunResult other = run_layout(c.run, layout);
        EXPECT_THAT(other.faults, IsEmpty());
        EXPECT_THAT(differences(one, other, kRounding), IsEmpty());
      }
    }
  }
}

// The whole way from a weight of the model to the loss, against finite differences.
TEST(Distillation, GradientsAreThoseOfTheLoss) {
  for (const DistillationCase& c : distillations()) {
    SCOPED_TRACE(c.name);
    TestRun base = c.run;
    base.steps = 1;
    base.max_norm = 0;
    const std::int64_t element = 5;
    std::string name;  // of a matrix in the second layer
    const auto loss_at = [&](double by) {
      TestRun run = base;
      bool moved = false;
      run.before = [&](int, run::TrainingRank& rank) {
        for (std::size_t p = 0; p < rank.params().specs().size(); ++p) {
          const ShardSpec& shard = rank.params().specs()[p].shard;
          if (moved || !shard.pieces[0].name.starts_with("layers.1.") || shard.local.rank() < 2) continue;
          name = shard.pieces[0].name;
          rank.parameters().master({static_cast<int>(p)}).as<double>()[element] += by;
          rank.optimizer().refresh_values(rank.ops());
          moved = true;
        }
      };
      const RunResult result = run_layout(run, data_parallel(1));
      EXPECT_TRUE(moved);
      return std::pair(result.losses.front(), result.gradients.at(name)[element]);
    };
    constexpr double kStep = 1e-5;
    const double slope = (loss_at(kStep).first - loss_at(-kStep).first) / (2 * kStep);
    const double gradient = loss_at(0).second;
    EXPECT_NEAR(gradient, slope, 1e-6 * std::max(1.0, std::abs(slope)));
    EXPECT_GT(std::abs(gradient), 1e-7);
  }
}

// A model that is its own teacher predicts what the teacher does: no loss, no gradient.
TEST(Distillation, OfItselfIsNothing) {
  TestRun run = distillation(DivergenceKind::kForward, 1, 0);
  run.teacher->model = model::resolve_model(run.config);
  run.steps = 1;
  for (const run::Layout& layout : {data_parallel(1), tensor_parallel(2, true, 1, 2)}) {
    const RunResult result = run_layout(run, layout);
    EXPECT_NEAR(result.losses.front(), 0, 1e-12);
    EXPECT_LT(result.norms.front(), 1e-9);
    EXPECT_NEAR(result.divergences.front(), 0, 1e-10);
  }
}

}  // namespace
}  // namespace stoa::layouts
