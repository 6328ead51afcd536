// Layers with experts in every layout that does not split the experts themselves. What the router's losses
// pool is a sequence, so they too are the same in every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using testing::IsEmpty;

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

}  // namespace
}  // namespace stoa::layouts
