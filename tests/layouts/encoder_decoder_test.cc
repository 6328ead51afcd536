// Encoder-decoders over the ranks of layouts, against one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using testing::IsEmpty;

TestRun pairs() {
  TestRun run = tiny_pairs_run();
  run.steps = 3;
  return run;
}

// NeMo's form: positions in the embedding, biases, a tied head.
TestRun learned_positions() {
  TestRun run = pairs();
  run.config.position_embedding_type = model::PositionEmbedding::kLearnedAbsolute;
  run.config.normalization = model::Normalization::kLayerNorm;
  run.config.bias = model::BiasKind::kAll;
  run.config.share_embeddings_and_output_weights = true;
  run.config.t5.scale_attention = true;
  run.config.t5.encoder_layers = 1;
  return run;
}

// umT5's: each layer has biases of its own.
TestRun biases_of_layers() {
  TestRun run = pairs();
  run.config.t5.relative_bias_per_layer = true;
  return run;
}

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

run::Layout tensor(int ranks, bool sequence, int data = 1, int stages = 1) {
  run::Layout layout = layout_of(ranks, 1, 1, data, stages);
  layout.sequence_parallel = sequence;
  return layout;
}
run::Layout zero(int stage) {
  run::Layout layout = data_parallel(2);
  layout.zero_stage = stage;
  return layout;
}

TEST(EncoderDecoder, TensorAndDataParallel) {
  for (const TestRun& run : {pairs(), learned_positions(), biases_of_layers()})
    expect_close(run,
                 {tensor(2, false), tensor(2, true), tensor(4, true), tensor(2, true, 2), zero(0), zero(1),
                  zero(2), zero(3)},
                 1e-9);
}

// The stream holds both sequences, so that a pipeline may be cut anywhere.
TEST(EncoderDecoder, Pipelines) {
  std::vector<run::Layout> layouts{pipeline(2), pipeline(4), pipeline(2, "interleaved", 2),
                                   pipeline(2, "zb-h1"), tensor(2, true, 1, 2)};
  run::Layout uneven = pipeline(2);
  uneven.layers = {3, 1};
  layouts.push_back(uneven);
  for (const TestRun& run : {pairs(), learned_positions()}) expect_close(run, layouts, 1e-9);
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
