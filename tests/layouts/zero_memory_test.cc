// Memory of the ZeRO stages, planned on the meta device: as the paper's formulas say (Rajbhandari et al.
// 2020, section 5), with a window that is stated apart. That plans are exact is shown where layouts run.
#include <gtest/gtest.h>

#include "planned_rank.h"

namespace stoa::layouts {
namespace {

constexpr int kRanks = 8;

MemoryTable planned(const run::Layout& layout, std::int64_t microbatches, int rank = 3) {
  TestRun run = tiny_run();
  run.config.num_layers = 6;
  run.config.hidden_size = 256;
  run.config.ffn_hidden_size = 1024;
  run.config.vocab_size = 4000;
  run.config.share_embeddings_and_output_weights = false;
  return PlannedRank(run, layout, rank, DType::kBF16, microbatches)->arena().declared();
}

double bytes(const MemoryTable& table, MemoryCategory category) {
  return static_cast<double>(table[static_cast<std::size_t>(category)]);
}

run::Layout sharded(int stage) {
  run::Layout layout = data_parallel(kRanks);
  layout.zero_stage = stage;
  return layout;
}

TEST(ZeroMemory, ShrinksAsThePaperSays) {
  const MemoryTable whole = planned(sharded(0), 1);
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    const MemoryTable table = planned(sharded(stage), 1);
    const auto expect_share = [&](MemoryCategory category, bool sharded) {
      const double full = bytes(whole, category), expected = sharded ? full / kRanks : full;
      EXPECT_NEAR(bytes(table, category), expected, 0.01 * expected) << name_of(category);
    };
    expect_share(MemoryCategory::kMaster, stage >= 1);
    expect_share(MemoryCategory::kOptimizer, stage >= 1);
    expect_share(MemoryCategory::kGradients, stage >= 2);
    expect_share(MemoryCategory::kWeights, stage >= 3);
  }
  // fp32 gradients, masters and two moments beside bf16 values: 2 + 4 + 4 + 8 bytes per parameter.
  const double masters = bytes(whole, MemoryCategory::kMaster);
  EXPECT_NEAR(bytes(whole, MemoryCategory::kWeights), masters / 2, 0.01 * masters);
  EXPECT_NEAR(bytes(whole, MemoryCategory::kGradients), masters, 0.01 * masters);
  EXPECT_NEAR(bytes(whole, MemoryCategory::kOptimizer), 2 * masters, 0.01 * masters);
}

// Embedding and head whole, and two of six blocks: gradients in stage 2, values too in stage 3.
TEST(ZeroMemory, TheWindowIsTwoBlocksAndTheEnds) {
  const double matrices = bytes(planned(sharded(0), 1), MemoryCategory::kMaster) / 4;
  const double ends = 2 * 4000 * 256, window = ends + (matrices - ends) / 6 * 2;
  const auto communication = [&](int stage) {
    return bytes(planned(sharded(stage), 1), MemoryCategory::kCommunication);
  };
  EXPECT_EQ(communication(0), communication(1));
  EXPECT_NEAR(communication(2) - communication(0), 4 * window, 0.02 * 4 * window);
  EXPECT_NEAR(communication(3) - communication(0), 6 * window, 0.02 * 6 * window);
}

// With several microbatches gradients are held whole, for the bits of stage 0, unless the layout says
// otherwise.
TEST(ZeroMemory, AccumulationHoldsGradientsWholeUnlessTheyAreReducedEachTime) {
  const double whole = bytes(planned(sharded(0), 4), MemoryCategory::kGradients);
  run::Layout layout = sharded(2);
  EXPECT_NEAR(bytes(planned(layout, 4), MemoryCategory::kGradients), whole, 0.01 * whole);
  layout.reduce_each_microbatch = true;
  EXPECT_NEAR(bytes(planned(layout, 4), MemoryCategory::kGradients), whole / kRanks, 0.01 * whole / kRanks);
}

// Every rank of a group holds as much as every other.
TEST(ZeroMemory, SharesAreEqual) {
  for (int rank = 1; rank < kRanks; ++rank)
    EXPECT_EQ(planned(sharded(3), 1, 0), planned(sharded(3), 1, rank));
}

}  // namespace
}  // namespace stoa::layouts
