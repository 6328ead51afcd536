// Tuning over the ranks of layouts: packed rows train as padded ones do, and objectives that compare answers
// give the same losses and gradients on every layout as on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
#include "data/numpy_random.h"
#include "layout_run.h"
#include "made_texts.h"
#include "train/objective_pass.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;
using tune::ChatDataset;
using tune::EncodedFiles;
using tune::ObjectiveKind;

// Lengths that fill eight rows exactly; the samples of a row are of different lengths.
std::shared_ptr<const EncodedFiles> answers() {
  auto files = std::make_shared<EncodedFiles>();
  data::NumpyRandom random(7);
  for (int i = 0; i < 4; ++i)
    for (const std::int64_t length : {7, 5, 6, 4, 2})
      files->samples.push_back({text_of(random, length), {}, {}, 0});
  files->records = {{"test", 1}};
  return files;
}

// Eight rows of two texts each, as the objective needs them: pairs, judged answers with answers to other
// questions, or texts with scores.
std::shared_ptr<const EncodedFiles> compared_texts(ObjectiveKind kind) {
  auto files = std::make_shared<EncodedFiles>();
  data::NumpyRandom random(11);
  for (int i = 0; i < 8; ++i) {
    tune::EncodedSample sample{text_of(random, 7), text_of(random, 5), {}, 0};
    if (kind == ObjectiveKind::kKto) sample.desirable = i % 3 == 0;
    if (kind == ObjectiveKind::kReward) sample.margin = 0.1 * i;
    if (kind == ObjectiveKind::kRegression) {
      files->samples.push_back({std::move(*sample.rejected), {}, {}, 0, 0, 0.2 * i});
      sample.rejected.reset();
      sample.score = -0.3;
    }
    files->samples.push_back(std::move(sample));
  }
  files->records = {{"test", 1}};
  return files;
}

TestRun tuning_run() {
  TestRun run = tiny_run();
  run.config.hidden_dropout = run.config.attention_dropout = run.config.embedding_dropout = 0;
  run.steps = 3;
  run.packed = true;
  return run;
}

// The rows of an epoch at every step.
TestRun run_on(TestRun run, std::shared_ptr<const ChatDataset> data) {
  run.rows = data->rows_per_epoch();
  run.batches = [data](std::int64_t) {
    std::vector<std::int64_t> samples;
    for (std::int64_t k = 0; k < data->rows_per_epoch(); ++k) samples.push_back(k);
    data::Batch batch;
    data::fill_batch(*data, samples, batch);
    return batch;
  };
  return run;
}

std::shared_ptr<const ChatDataset> data_of(std::shared_ptr<const EncodedFiles> files, bool packed,
                                           bool scored = false) {
  ChatDataset::Options options{.sequence_length = kLength, .packed = packed, .pad = 0, .shuffled = false};
  options.scored = scored;
  return std::make_shared<const ChatDataset>(std::move(files), std::nullopt, options);
}

std::vector<run::Layout> layouts() {
  run::Layout sequence = layout_of(2, 1, 1, 1, 2), zero = layout_of(1, 1, 1, 4, 1);
  sequence.sequence_parallel = true;
  zero.zero_stage = 3;
  return {layout_of(2, 2, 1, 1, 1), sequence, zero, pipeline(2, "zb-v", 2), layout_of(1, 1, 1, 2, 2)};
}

TEST(Tuning, PackedIsPadded) {
  const auto packed = data_of(answers(), true), padded = data_of(answers(), false);
  ASSERT_EQ(packed->rows_per_epoch(), 8);
  ASSERT_EQ(padded->rows_per_epoch(), 20);
  const TestRun together = run_on(tuning_run(), packed), alone = run_on(tuning_run(), padded);
  const RunResult one = run_layout(together, data_parallel(1));
  EXPECT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(alone, data_parallel(1)), kRounding), IsEmpty());
  for (const run::Layout& layout : layouts()) {
    SCOPED_TRACE(::testing::Message() << layout.grid.size() << " ranks, " << layout.schedule);
    EXPECT_THAT(differences(one, run_layout(together, layout), kRounding), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(alone, layout), kRounding), IsEmpty());
  }
}

tune::ObjectiveConfig objective(ObjectiveKind kind) {
  tune::ObjectiveConfig config;
  config.name = kind;
  config.beta = 0.3;
  config.sft_weight = kind == ObjectiveKind::kDpo ? 0.2 : 0;
  config.center_rewards_coefficient = kind == ObjectiveKind::kReward ? 0.05 : 0;
  return config;
}

// The model and the rows of an objective.
struct Compared {
  explicit Compared(ObjectiveKind kind)
      : data(data_of(compared_texts(kind), true, objective(kind).scores())), run(run_on(tuning_run(), data)) {
    if (objective(kind).scores())
      run.config.task = {model::Task::kSequenceClassification, {"score"}, std::nullopt, std::nullopt};
  }
  std::shared_ptr<const ChatDataset> data;
  TestRun run;
};

// One pass per rank, made before the first step and used in all of them.
struct Passes {
  Passes(const tune::ObjectiveConfig& objective_config, std::shared_ptr<const ChatDataset> pairs_or_judged)
      : config(objective_config), data(std::move(pairs_or_judged)) {}

  TestRun add_to(TestRun run, int ranks) {
    passes.clear();
    passes.resize(static_cast<std::size_t>(ranks));
    run.before = [this, then = run.before](int number, run::TrainingRank& rank) {
      auto& pass = passes[static_cast<std::size_t>(number)];
      pass = std::make_unique<train::ObjectivePass>(rank, config,
                                                    train::ObjectivePass::Data{data.get(), data.get()});
      EXPECT_TRUE(pass->refer(directory.path(), false, [] { return false; }));
      if (then) then(number, rank);
    };
    run.weigh = [this](int number, data::Batch& batch) {
      const auto measure = passes[static_cast<std::size_t>(number)]->weigh(batch);
      if (number == 0) measures.push_back(measure.loss);
    };
    return run;
  }

  const tune::ObjectiveConfig config;
  const std::shared_ptr<const ChatDataset> data;
  const TestFolder directory;
  std::vector<std::unique_ptr<train::ObjectivePass>> passes;
  std::vector<double> measures;  // loss of every step
};

const std::vector<ObjectiveKind> kKinds{ObjectiveKind::kDpo,    ObjectiveKind::kIpo,
                                        ObjectiveKind::kOrpo,   ObjectiveKind::kKto,
                                        ObjectiveKind::kReward, ObjectiveKind::kRegression};

TEST(Tuning, AnswersAreComparedAlikeInEveryLayout) {
  for (const ObjectiveKind kind : kKinds) {
    SCOPED_TRACE(tune::name_of(kind));
    const Compared compared(kind);
    const auto& data = compared.data;
    ASSERT_EQ(data->rows_per_epoch(), 8);
    const auto run_with = [&](const run::Layout& layout, std::vector<double>& measures) {
      Passes passes(objective(kind), data);
      RunResult result = run_layout(passes.add_to(compared.run, layout.grid.size()), layout);
      measures = passes.measures;
      return result;
    };
    std::vector<double> expected, measures;
    const RunResult one = run_with(data_parallel(1), expected);
    EXPECT_THAT(one.faults, IsEmpty());
    ASSERT_EQ(expected.size(), 3U);
    EXPECT_LT(expected.back(), expected.front());  // it learns
    for (const run::Layout& layout : layouts()) {
      SCOPED_TRACE(::testing::Message() << layout.grid.size() << " ranks, " << layout.schedule);
      EXPECT_THAT(differences(one, run_with(layout, measures), 1e-8), IsEmpty());
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(measures[i], expected[i], 1e-9 * std::abs(expected[i]));
    }
  }
}

// The whole way from a weight of the model to the loss, against finite differences in fp64.
TEST(Tuning, GradientsAreThoseOfTheObjective) {
  for (const ObjectiveKind kind : kKinds) {
    if (kind == ObjectiveKind::kKto) continue;  // its drift has no gradient, but moves with the weights
    SCOPED_TRACE(tune::name_of(kind));
    const Compared compared(kind);
    const auto& data = compared.data;
    TestRun base = compared.run;
    base.steps = 1;
    base.max_norm = 0;
    const std::int64_t element = 5;
    std::string name;  // of a matrix in the second layer
    // The loss with one weight moved.
    const auto loss_at = [&](double by) {
      Passes passes(objective(kind), data);
      TestRun run = base;
      bool moved = false;
      run.before = [&](int, run::TrainingRank& rank) {
        for (std::size_t p = 0; p < rank.params().specs().size(); ++p) {
          const nn::ParamId id{static_cast<int>(p)};
          const ShardSpec& shard = rank.params().specs()[p].shard;
          if (moved || !shard.pieces[0].name.starts_with("layers.1.") || shard.local.rank() < 2) continue;
          name = shard.pieces[0].name;
          rank.parameters().master(id).as<double>()[element] += by;
          rank.optimizer().refresh_values(rank.ops());
          moved = true;
        }
      };
      const RunResult result = run_layout(passes.add_to(run, 1), data_parallel(1));
      EXPECT_TRUE(moved);
      return std::pair(passes.measures.front(), result.gradients.at(name)[element]);
    };
    constexpr double kStep = 1e-5;
    const double slope = (loss_at(kStep).first - loss_at(-kStep).first) / (2 * kStep);
    const double gradient = loss_at(0).second;
    EXPECT_NEAR(gradient, slope, 1e-6 * std::max(1.0, std::abs(slope)));
    EXPECT_GT(std::abs(gradient), 1e-7);
  }
}

}  // namespace
}  // namespace stoa::layouts
