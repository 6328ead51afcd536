// Frozen parameters (model.freeze) over the ranks of layouts: they keep every bit, and the rest is trained as
// on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapted_runs.h"
#include "family_runs.h"
#include "model/freeze.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;
using Patterns = std::vector<std::string>;

TestRun frozen_run(TestRun run, Patterns freeze) {
  run.steps = 4;
  run.config.freeze = std::move(freeze);
  return run;
}

// Frozen weights are those of the start in every bit, the others are not; frozen ones have no gradient.
void expect_frozen(const TestRun& run, const RunResult& start, const RunResult& result) {
  expect_only_trained(start, result,
                      [&](const std::string& name) { return model::is_trained(run.config.freeze, name); });
}

TEST(Frozen, TheRestIsTrainedWithTheSameGradients) {
  const TestRun run = frozen_run(tiny_run(), {"embedding", "layers.0-1", "*.norm2"});
  TestRun all = run;
  all.config.freeze.clear();
  all.steps = 1;
  const RunResult result = run_layout(run, data_parallel(1)), whole = run_layout(all, data_parallel(1));
  EXPECT_THAT(result.faults, IsEmpty());
  expect_frozen(run, weights_at_start(run), result);
  EXPECT_EQ(result.losses.front(), whole.losses.front());
  EXPECT_LT(result.norms.front(), whole.norms.front());
  for (const auto& [name, gradient] : result.gradients) EXPECT_EQ(gradient, whole.gradients.at(name)) << name;
}

struct FrozenCase {
  const char* name;
  TestRun run;
};
std::vector<FrozenCase> frozen_cases() {
  TestRun untied = tiny_run();
  untied.config.share_embeddings_and_output_weights = false;
  return {{"a tied embedding and the first layers", frozen_run(tiny_run(), {"embedding", "layers.0-1"})},
          {"the last layers and the head", frozen_run(untied, {"layers.2-3", "head", "final_norm"})},
          {"all but biases", frozen_run(tiny_run(), {"*", "!*.bias"})},
          {"all but one layer", frozen_run(tiny_run(), {"*", "!layers.2"})},
          {"all but the head", frozen_run(untied, {"*", "!head"})}};
}

// What changes no bit of a run changes none of one with frozen parameters: stages of a pipeline and their
// schedules, ZeRO and its buckets.
TEST(Frozen, PipelinesAndShardsLikeOneRank) {
  for (const FrozenCase& c : frozen_cases()) {
    SCOPED_TRACE(c.name);
    const RunResult one = run_layout(c.run, data_parallel(1)), two = run_layout(c.run, data_parallel(2));
    EXPECT_THAT(one.faults, IsEmpty());
    EXPECT_THAT(differences(one, two, kRounding), IsEmpty());
    expect_frozen(c.run, weights_at_start(c.run), one);
    for (const run::Layout& layout :
         {pipeline(4), pipeline(2, "gpipe"), pipeline(2, "interleaved", 2), pipeline(2, "bfs", 2),
          pipeline(2, "zb-h1"), pipeline(2, "zb-h2"), pipeline(2, "zb-v", 2),
          pipeline(2, "interleaved-zb", 2), pipeline(2, "dualpipev", 2), pipeline(2, "v-half", 2)}) {
      SCOPED_TRACE(layout.schedule);
      EXPECT_THAT(differences(one, run_layout(c.run, layout), 0), IsEmpty());
    }
    for (int stage = 0; stage <= 3; ++stage)
      for (const int stages : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << "ZeRO " << stage << ", " << stages << " stages");
        run::Layout layout = layout_of(1, 1, 1, 2, stages);
        layout.zero_stage = stage;
        layout.bucket_bytes = 20000;
        layout.overlap_grad_reduce = stage > 1;
        EXPECT_THAT(differences(two, run_layout(c.run, layout), 0), IsEmpty());
      }
  }
}

// Stages in front of what is trained run forward only: they keep no activations, and nothing returns to them.
TEST(Frozen, StagesWithNothingToTrainRunNoBackwardPass) {
  run::TrainingOptions options;
  options.model = model::resolve_model(frozen_run(tiny_run(), {"embedding", "layers.0-1"}).config);
  options.layout = pipeline(4);
  options.microbatches = 8;
  const schedule::Schedule steps = run::step_schedule(options, options.microbatches);
  using schedule::ActionKind;
  const auto count = [&](std::size_t stage, ActionKind kind) {
    return std::count_if(steps.ranks[stage].begin(), steps.ranks[stage].end(),
                         [&](const schedule::Action& action) { return action.kind == kind; });
  };
  for (std::size_t stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    EXPECT_EQ(count(stage, ActionKind::kForward), options.microbatches);
    EXPECT_EQ(count(stage, ActionKind::kBackward), stage < 2 ? 0 : options.microbatches);
    EXPECT_EQ(count(stage, ActionKind::kSendGradient), stage < 3 ? 0 : options.microbatches);
    EXPECT_EQ(count(stage, ActionKind::kStep), 1);
  }
  const std::vector<schedule::Holdings> held = run::most_held(options);
  EXPECT_EQ(held[1].activations[1], 0);
  EXPECT_EQ(held[1].gradients[1], 0);
  EXPECT_EQ(held[2].activations[2], 2);
}

TEST(Frozen, ReducedAfterEachMicrobatch) {
  const TestRun run = frozen_run(tiny_run(), {"embedding", "layers.1", "*.norm*"});
  const RunResult one = run_layout(run, data_parallel(1));
  run::Layout layout = data_parallel(2);
  layout.reduce_each_microbatch = true;
  layout.zero_stage = 2;
  const RunResult second = run_layout(run, layout);
  EXPECT_THAT(differences(one, second, kRounding), IsEmpty());
  layout.overlap_grad_reduce = true;
  layout.zero_stage = 3;
  EXPECT_THAT(differences(second, run_layout(run, layout), 0), IsEmpty());
}

TEST(Frozen, RanksThatSplitTensors) {
  for (const FrozenCase& c : frozen_cases()) {
    SCOPED_TRACE(c.name);
    const RunResult one = run_layout(c.run, data_parallel(1)), start = weights_at_start(c.run);
    for (const bool sequence : {false, true}) {
      run::Layout layout = layout_of(2, sequence ? 1 : 2, 1, 2, sequence ? 2 : 1);
      layout.sequence_parallel = sequence;
      layout.zero_stage = sequence ? 1 : 3;
      const RunResult split = run_layout(c.run, layout);
      EXPECT_THAT(differences(one, split, kRounding), IsEmpty()) << "sequence parallel " << sequence;
      expect_frozen(c.run, start, split);
    }
  }
}

TEST(Frozen, RecomputedAndOffloadedLayers) {
  const TestRun run = frozen_run(tiny_run(), {"embedding", "layers.0-1"});
  const RunResult one = run_layout(run, data_parallel(1));
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    TestRun again = run;
    again.config.recompute.granularity = granularity;
    if (granularity == model::RecomputeGranularity::kFull) {
      again.config.recompute.method = model::RecomputeMethod::kUniform;
      again.config.recompute.num_layers = 3;
    }
    EXPECT_THAT(differences(one, run_layout(again, data_parallel(1)), 0), IsEmpty());
  }
  TestRun offloaded = run;
  offloaded.config.recompute.offload.cpu_offloading = true;
  EXPECT_THAT(differences(one, run_layout(offloaded, data_parallel(1)), 0), IsEmpty());
}

TEST(Frozen, Muon) {
  TestRun run = frozen_run(tiny_run(), {"layers.0-1.attention", "layers.2", "embedding.positions"});
  run.optimizer = optim::OptimizerKind::kMuon;
  const RunResult one = run_layout(run, data_parallel(1));
  EXPECT_THAT(one.faults, IsEmpty());
  expect_frozen(run, weights_at_start(run), one);
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
  run::Layout layout = data_parallel(2);
  layout.zero_stage = 1;
  EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
}

// Tables that every stage of an encoder-decoder holds, experts over ranks, a balancing bias that is no
// gradient.
TEST(Frozen, Families) {
  const std::vector<std::pair<const char*, Patterns>> families{
      {"T5", {"*relative_bias", "encoder.0"}},
      {"T5", {"*", "!*relative_bias"}},
      {"DeepSeek-V3", {"*.experts", "*.router"}},
      {"Qwen3-Next", {"*.step_bias", "layers.0.delta.conv"}},
      {"gpt-oss", {"*.sinks", "*.bias"}}};
  for (const auto& [family, freeze] : families) {
    SCOPED_TRACE(family);
    const TestRun run = frozen_run(family_run(family), freeze);
    const RunResult one = run_layout(run, data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    expect_frozen(run, weights_at_start(run), one);
    EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
    run::Layout layout = data_parallel(2);
    layout.zero_stage = 3;
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
  }
}

}  // namespace
}  // namespace stoa::layouts
