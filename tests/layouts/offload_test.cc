// Activations that wait in the host's memory: the same bits, and less memory of the device by exactly what
// was moved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "planned_rank.h"

namespace stoa::layouts {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TestRun deep_run() {
  TestRun run = tiny_run();
  run.config.num_layers = 8;
  run.steps = 4;
  return run;
}

TestRun offloaded(TestRun run, std::int64_t layers) {
  run.config.recompute.offload.cpu_offloading = true;
  run.config.recompute.offload.cpu_offloading_num_layers = layers;
  return run;
}

TEST(Offload, OneRankIsBitEqual) {
  TestRun run = deep_run();
  const RunResult kept = run_layout(run, data_parallel(1));
  ASSERT_THAT(kept.faults, IsEmpty());
  for (const std::int64_t layers : {1, 2, 3, 7, 8}) {
    SCOPED_TRACE(layers);
    EXPECT_THAT(differences(kept, run_layout(offloaded(run, layers), data_parallel(1)), 0), IsEmpty());
  }
  run.config.recompute.granularity = model::RecomputeGranularity::kSelective;
  EXPECT_THAT(differences(kept, run_layout(offloaded(run, 5), data_parallel(1)), 0), IsEmpty());
}

TEST(Offload, EveryScheduleIsBitEqual) {
  const TestRun run = deep_run();
  const RunResult one = run_layout(run, data_parallel(1));
  for (const run::Layout& layout :
       {pipeline(2), pipeline(4, "gpipe"), pipeline(2, "interleaved", 2), pipeline(2, "zb-h1"),
        pipeline(2, "zb-v"), pipeline(2, "dualpipev"), pipeline(2, "interleaved-zb", 2)}) {
    SCOPED_TRACE(layout.schedule);
    EXPECT_THAT(differences(one, run_layout(offloaded(run, layout.pipeline_ranks() == 4 ? 2 : 3), layout), 0),
                IsEmpty());
  }
}

run::Layout everything() {
  run::Layout layout = layout_of(2, 1, 1, 2, 2);
  layout.sequence_parallel = true;
  layout.schedule = "interleaved";
  layout.chunks = 2;
  layout.zero_stage = 1;
  return layout;
}

TEST(Offload, WithEveryOtherWayToSaveMemory) {
  TestRun run = deep_run();
  run.config.recompute.granularity = model::RecomputeGranularity::kSelective;
  const RunResult kept = run_layout(run, everything());
  ASSERT_THAT(kept.faults, IsEmpty());
  for (const std::int64_t layers : {1, 3, 4})
    EXPECT_THAT(differences(kept, run_layout(offloaded(run, layers), everything()), 0), IsEmpty());
}

TEST(Offload, ExpertsAndPairsAreBitEqual) {
  TestRun experts = deep_run();
  experts.config.bias = model::BiasKind::kNone;
  experts.config.moe.num_moe_experts = 4;
  experts.config.moe.moe_ffn_hidden_size = 12;
  experts.config.moe.moe_aux_loss_coeff = 0.02;
  const run::Layout spread = layout_of(1, 1, 2, 2, 2);
  EXPECT_THAT(differences(run_layout(experts, spread), run_layout(offloaded(experts, 4), spread), 0),
              IsEmpty());
  TestRun pairs = tiny_pairs_run();
  pairs.steps = 3;
  const run::Layout split = layout_of(1, 1, 1, 2, 2);
  EXPECT_THAT(differences(run_layout(pairs, split), run_layout(offloaded(pairs, 2), split), 0), IsEmpty());
}

MemoryTable declared(const TestRun& run, const run::Layout& layout, int rank) {
  return PlannedRank(run, layout, rank, DType::kBF16, 8)->arena().declared();
}

TEST(Offload, TheDeviceHoldsLessByWhatWasMoved) {
  const auto at = [](const MemoryTable& table, MemoryCategory c) {
    return table[static_cast<std::size_t>(c)];
  };
  const TestRun run = deep_run();
  const run::Layout layout = pipeline(2);
  for (const int rank : {0, 1}) {
    const MemoryTable kept = declared(run, layout, rank), some = declared(offloaded(run, 1), layout, rank),
                      most = declared(offloaded(run, 4), layout, rank);
    EXPECT_EQ(host_bytes(kept), 0u);
    // A layer of every microbatch in flight: two on the first stage, one on the last; and the places that
    // they pass through.
    const std::size_t flying = rank == 0 ? 2 : 1, layer = host_bytes(some) / flying;
    EXPECT_EQ(host_bytes(most), 4 * flying * layer);
    for (const auto& [table, layers, places] :
         {std::tuple(some, std::size_t{1}, std::size_t{1}), std::tuple(most, std::size_t{4}, std::size_t{3})})
      EXPECT_EQ(at(table, MemoryCategory::kActivations) + layers * flying * layer,
                at(kept, MemoryCategory::kActivations) + places * layer)
          << rank;
    EXPECT_EQ(device_bytes(kept) - at(kept, MemoryCategory::kActivations),
              device_bytes(most) - at(most, MemoryCategory::kActivations));
  }
}

TEST(Offload, RefusesMoreLayersThanAStageHas) {
  try {
    run_layout(offloaded(deep_run(), 5), pipeline(2));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cpu_offloading_num_layers 5"));
    EXPECT_THAT(error.what(), HasSubstr("has 4"));
  }
}

}  // namespace
}  // namespace stoa::layouts
