// Muon works on whole matrices, whichever ranks hold their parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TestRun muon() {
  TestRun run = tiny_run();
  run.steps = 6;
  run.optimizer = optim::OptimizerKind::kMuon;
  run.config.moe.num_moe_experts = 4;
  run.config.moe.moe_dense_layers = {1};
  run.config.moe.moe_ffn_hidden_size = 12;
  run.config.bias = model::BiasKind::kQkv;
  return run;
}

run::Layout with_experts(run::Layout layout, int tensor, int expert) {
  const auto degree = [&](grid::Axis axis) { return layout.grid.degree(axis); };
  layout.grid = grid::RankGrid({degree(grid::Axis::kTensor), degree(grid::Axis::kContext), 1,
                                degree(grid::Axis::kData), degree(grid::Axis::kPipeline)},
                               {tensor, expert});
  return layout;
}

TEST(Muon, ShardsAndStagesChangeNoBit) {
  for (const auto& whole : {data_parallel(2), with_experts(data_parallel(4), 1, 2)}) {
    const RunResult plain = run_layout(muon(), whole);
    ASSERT_THAT(plain.faults, IsEmpty());
    for (const int stage : {1, 2, 3}) {
      run::Layout layout = whole;
      layout.zero_stage = stage;
      layout.bucket_bytes = 20000;
      EXPECT_THAT(differences(plain, run_layout(muon(), layout), 0), IsEmpty()) << "stage " << stage;
    }
  }
}

TEST(Muon, PartsOfMatricesAreTheSameToRounding) {
  const RunResult one = run_layout(muon(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(muon(), pipeline(2)), 0), IsEmpty());
  run::Layout tensor = layout_of(2, 1, 1, 1, 1);
  EXPECT_THAT(differences(one, run_layout(muon(), tensor), 1e-9), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(muon(), with_experts(tensor, 1, 2)), 1e-9), IsEmpty());
  run::Layout shared = layout_of(4, 1, 1, 2, 1);  // two ranks hold each key head
  shared.sequence_parallel = true;
  shared.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(muon(), shared), 1e-9), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(muon(), with_experts(data_parallel(4), 2, 2)), 1e-9), IsEmpty());
}

}  // namespace
}  // namespace stoa::layouts
