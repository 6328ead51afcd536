// Encoder-decoders over the ranks of layouts, against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "family_runs.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TestRun pairs() { return family_run("T5"); }
TestRun learned_positions() { return family_run("T5 of learned positions"); }

void expect_close(const TestRun& run, const std::vector<run::Layout>& layouts, double tolerance) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const run::Layout& layout : layouts) {
    SCOPED_TRACE(run::rank_name(layout.grid, layout.grid.size() - 1) + " " + layout.schedule +
                 (layout.sequence_parallel ? " sequence parallel" : "") + " zero " +
                 std::to_string(layout.zero_stage));
    const RunResult other = run_layout(run, layout);
    EXPECT_THAT(other.faults, IsEmpty());
    EXPECT_THAT(differences(one, other, tolerance), IsEmpty());
  }
}

run::Layout zero(int stage) {
  run::Layout layout = data_parallel(2);
  layout.zero_stage = stage;
  return layout;
}

TEST(EncoderDecoder, TensorAndDataParallel) {
  for (const TestRun& run : {pairs(), learned_positions()})
    expect_close(run,
                 {tensor_parallel(2, false), tensor_parallel(2, true), tensor_parallel(4, true),
                  tensor_parallel(2, true, 2), zero(0), zero(1), zero(2), zero(3)},
                 1e-9);
}

// The stream holds both sequences, so that a pipeline may be cut anywhere.
TEST(EncoderDecoder, Pipelines) {
  std::vector<run::Layout> layouts{pipeline(2),          with_spread_layers(pipeline(3), 4),
                                   pipeline(4),          pipeline(2, "interleaved", 2),
                                   pipeline(2, "zb-h1"), tensor_parallel(2, true, 1, 2)};
  run::Layout uneven = pipeline(2);
  uneven.layers = {3, 1};
  layouts.push_back(uneven);
  for (const TestRun& run : {pairs(), learned_positions()}) expect_close(run, layouts, 1e-9);
}

// The biases that the layers of a stack share have a gradient of every layer: its order is that of the
// layers, wherever the stack is cut.
TEST(EncoderDecoder, PipelinesChangeNoBit) {
  TestRun run = pairs();
  run.config.num_layers = 8;
  run.config.t5.encoder_layers = 5;
  run::Layout uneven = pipeline(2);
  uneven.layers = {3, 5};
  expect_close(run,
               {pipeline(2), with_spread_layers(pipeline(3), 8), pipeline(4), pipeline(2, "interleaved", 2),
                pipeline(2, "zb-v"), uneven},
               0);
}

TEST(EncoderDecoder, RecomputationChangesNoBit) {
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    TestRun run = pairs();
    run.config.recompute.granularity = granularity;
    EXPECT_THAT(differences(run_layout(pairs(), data_parallel(1)), run_layout(run, data_parallel(1)), 0),
                IsEmpty());
  }
}

}  // namespace
}  // namespace stoa::layouts
