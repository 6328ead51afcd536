// muP: what a model's activations do with its width, and the same training in every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/test_folder.h"
#include "ckpt/tensor_dump.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

TestRun mup() {
  TestRun run = tiny_run();
  run.steps = 6;
  model::ModelConfig& c = run.config;
  c.mup.use_mup = true;
  c.mup.mup_base_hidden_size = 4;
  c.mup.mup_base_head_dim = 2;
  c.mup.mup_output_mult = 3;
  return run;
}

TEST(Mup, EveryLayoutIsTheSameRun) {
  const RunResult one = run_layout(mup(), data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(tiny_run(), data_parallel(1)), 1e-9), ::testing::Not(IsEmpty()));
  EXPECT_THAT(differences(one, run_layout(mup(), pipeline(2, "zb-h1")), 0), IsEmpty());
  const RunResult two = run_layout(mup(), data_parallel(2));
  EXPECT_THAT(differences(one, two, 1e-9), IsEmpty());
  for (const int stage : {1, 2, 3}) {  // parts that begin within the queries, keys or values
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    layout.bucket_bytes = 3000;
    EXPECT_THAT(differences(two, run_layout(mup(), layout), 0), IsEmpty()) << "stage " << stage;
  }
  run::Layout all = layout_of(4, 1, 1, 2, 1);  // two ranks hold each key head
  all.sequence_parallel = true;
  all.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(mup(), all), 1e-9), IsEmpty());
}

TEST(Mup, QueryNormsAndExperts) {
  TestRun run = mup();
  run.config.qk_layernorm = true;
  run.config.bias = model::BiasKind::kNone;
  run.config.share_embeddings_and_output_weights = false;
  run.config.moe.num_moe_experts = 4;
  run.config.moe.moe_ffn_hidden_size = 12;
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  run::Layout layout = layout_of(2, 1, 1, 1, 1);
  layout.sequence_parallel = true;
  EXPECT_THAT(differences(one, run_layout(run, layout), 1e-9), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
}

// At the base width with the base's heads nothing is scaled.
TEST(Mup, TheBaseIsTheModelWithout) {
  TestRun run = mup();
  run.config.mup.mup_base_hidden_size = run.config.hidden_size;
  run.config.mup.mup_base_head_dim = static_cast<double>(run.config.head_size());
  run.config.mup.mup_output_mult = 1;
  TestRun without = run;
  without.config.mup = {};
  EXPECT_THAT(differences(run_layout(without, data_parallel(1)), run_layout(run, data_parallel(1)), 0),
              IsEmpty());
}

TEST(Mup, OptimizersWithoutRulesAreRefused) {
  for (const auto kind : {optim::OptimizerKind::kSgd, optim::OptimizerKind::kMuon}) {
    TestRun run = mup();
    run.optimizer = kind;
    EXPECT_THROW(run_layout(run, data_parallel(1)), ConfigError);
  }
}

class Coordinates : public ::testing::Test {
 protected:
  // Root mean square of the logits in the fifth step.
  double logits(std::int64_t width, bool scaled) {
    TestRun run = tiny_run();
    model::ModelConfig& c = run.config;
    c.num_layers = 2;
    c.hidden_size = width;
    c.ffn_hidden_size = 2 * width;
    c.num_query_groups.reset();
    c.hidden_dropout = c.attention_dropout = c.embedding_dropout = 0;
    if (scaled) {
      c.mup.use_mup = true;
      c.mup.mup_base_hidden_size = 16;
      c.mup.mup_base_head_dim = 4;
    }
    run.rows = 4;
    run.steps = 5;
    run.rate = 1e-2;
    run.epsilon = 1e-12;
    run.dump_step = 4;
    run.dump = directory_ / std::to_string(width);
    run_layout(run, data_parallel(1));
    ckpt::DumpReader dump(run.dump);
    double squares = 0;
    std::int64_t tokens = 0;
    for (const auto& record : dump.records(1)) {
      if (record.tensor != "head.logits") continue;
      const auto bytes = dump.bytes(record);
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      for (std::int64_t t = 0; t < record.shape[0]; ++t, ++tokens) squares += std::pow(values[3 * t + 2], 2);
    }
    return std::sqrt(squares / static_cast<double>(tokens));
  }

  const TestFolder directory_;
};

// The coordinate check of Tensor Programs V, figure 5.
TEST_F(Coordinates, LogitsDoNotGrowWithTheWidth) {
  std::map<std::int64_t, double> plain, scaled;
  for (const std::int64_t width : {16, 32, 64, 128}) {
    plain[width] = logits(width, false);
    scaled[width] = logits(width, true);
    std::printf("width %3d: rms of the logits %.3f, with use_mup %.3f\n", static_cast<int>(width),
                plain[width], scaled[width]);
  }
  EXPECT_DOUBLE_EQ(scaled[16], plain[16]);
  EXPECT_GT(plain[128], 2 * plain[16]);
  EXPECT_LT(scaled[128], 1.2 * scaled[16]);
}

}  // namespace
}  // namespace stoa::layouts
