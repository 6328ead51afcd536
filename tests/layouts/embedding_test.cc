// Embedding models over the ranks of layouts: the texts of a global batch are compared with those of all
// ranks and microbatches, so every layout gives the losses and gradients of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/labelled_dataset.h"
#include "data/numpy_random.h"
#include "family_runs.h"
#include "train/contrastive_pass.h"

namespace stoa::layouts {
namespace {

using model::Pooling;
using ::testing::IsEmpty;

constexpr std::int64_t kTexts = 3;

// Twelve rows: four queries, each with its positive and a negative, of different lengths.
data::Batch compared_batch(std::int64_t length, std::int64_t vocabulary, Pooling pooling,
                           std::uint32_t seed) {
  std::vector<data::LabelledRow> rows;
  data::NumpyRandom random(seed);
  for (std::int64_t r = 0; r < 4 * kTexts; ++r) {
    data::LabelledRow row;
    const std::int64_t tokens = 3 + r * 5 % (length - 3);
    for (std::int64_t i = 0; i < tokens; ++i)
      row.tokens.push_back(
          static_cast<std::int32_t>(random.interval(static_cast<std::uint64_t>(vocabulary - 1))));
    row.token_types.assign(row.tokens.size(), 0);
    row.labels = {{static_cast<std::int32_t>(pooling == Pooling::kLastToken ? tokens - 1 : 0), 0}};
    rows.push_back(std::move(row));
  }
  data::LabelledDataset::Options options;
  options.sequence_length = length;
  options.shuffled = false;
  options.together = kTexts;
  const data::LabelledDataset data(std::move(rows), std::nullopt, options);
  std::vector<std::int64_t> samples;
  for (std::int64_t k = 0; k < data.size(); ++k) samples.push_back(k);
  data::Batch batch;
  data::fill_batch(data, samples, batch);
  return batch;
}

TestRun embedding_run(TestRun run, Pooling pooling) {
  run.config.hidden_dropout = run.config.attention_dropout = run.config.embedding_dropout = 0;
  run.config.task = {};
  run.config.task.type = model::Task::kEmbedding;
  run.config.task.pooling = pooling;
  run.config.init_method_std = 0.3;
  run.rows = 4 * kTexts;
  run.steps = 3;
  run.batches = [length = run.config.sample_length(), vocabulary = *run.config.vocab_size,
                 pooling](std::int64_t step) {
    return compared_batch(length, vocabulary, pooling, static_cast<std::uint32_t>(5 + step));
  };
  return run;
}

// One pass per rank, made before the first step and used in all of them.
struct EmbeddingPasses {
  TestRun add_to(TestRun run, int ranks) {
    passes.clear();
    passes.resize(static_cast<std::size_t>(ranks));
    run.before = [this, then = run.before](int number, run::TrainingRank& rank) {
      passes[static_cast<std::size_t>(number)] = std::make_unique<train::ContrastivePass>(
          rank, train::ContrastivePass::Options{0.2, {kTexts, 0}, 4 * kTexts});
      if (then) then(number, rank);
    };
    run.weigh = [this](int number, data::Batch& batch) {
      const auto measure = passes[static_cast<std::size_t>(number)]->weigh(batch);
      if (number == 0) losses.push_back(measure.loss);
    };
    return run;
  }

  std::vector<std::unique_ptr<train::ContrastivePass>> passes;
  std::vector<double> losses;  // of every step
};

struct EmbeddingCase {
  const char* name;
  TestRun run;
};
std::vector<EmbeddingCase> embeddings() {
  return {{"the mean, of an encoder", embedding_run(family_run("BERT"), Pooling::kMean)},
          {"the first token, of an encoder", embedding_run(family_run("BERT"), Pooling::kFirstToken)},
          {"the last token, of a decoder", embedding_run(tiny_run(), Pooling::kLastToken)},
          {"the mean, of a decoder", embedding_run(tiny_run(), Pooling::kMean)}};
}

std::vector<run::Layout> embedding_layouts() {
  run::Layout zero = data_parallel(2), sharded = layout_of(2, 1, 1, 2, 1);
  zero.zero_stage = 3;
  sharded.zero_stage = 2;
  sharded.sequence_parallel = true;
  return {data_parallel(2),
          data_parallel(4),
          tensor_parallel(2, false),
          tensor_parallel(4, true),
          pipeline(2),
          pipeline(4),
          pipeline(2, "interleaved", 2),
          pipeline(2, "zb-v", 2),
          layout_of(1, 1, 1, 2, 2),
          zero,
          sharded};
}

TEST(Embeddings, LayoutsLikeOneRank) {
  for (const EmbeddingCase& c : embeddings()) {
    SCOPED_TRACE(c.name);
    EmbeddingPasses alone;
    const RunResult one = run_layout(alone.add_to(c.run, 1), data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    ASSERT_EQ(alone.losses.size(), 3U);
    for (const run::Layout& layout : embedding_layouts()) {
      SCOPED_TRACE(::testing::Message() << layout.grid.size() << " ranks, " << layout.schedule);
      EmbeddingPasses passes;
      const RunResult other = run_layout(passes.add_to(c.run, layout.grid.size()), layout);
      EXPECT_THAT(other.faults, IsEmpty());
      EXPECT_THAT(differences(one, other, 1e-6), IsEmpty());  // gradients pass through fp32
      ASSERT_EQ(passes.losses.size(), 3U);
      for (std::size_t i = 0; i < alone.losses.size(); ++i)
        EXPECT_NEAR(passes.losses[i], alone.losses[i], 1e-7 * alone.losses[i]);
    }
  }
}

// The loss is that of the whole batch, however many microbatches it comes in, and whatever is recomputed.
TEST(Embeddings, MicrobatchesAndRecomputationChangeNothing) {
  for (const EmbeddingCase& c : embeddings()) {
    SCOPED_TRACE(c.name);
    EmbeddingPasses single, many;
    TestRun whole = c.run, again = c.run;
    whole.micro_batch = whole.rows;
    const RunResult one = run_layout(single.add_to(whole, 1), data_parallel(1));
    EXPECT_THAT(differences(one, run_layout(many.add_to(c.run, 1), data_parallel(1)), 1e-6), IsEmpty());
    again.config.recompute.granularity = model::RecomputeGranularity::kSelective;
    EmbeddingPasses third, fourth;
    EXPECT_THAT(differences(run_layout(third.add_to(c.run, 1), data_parallel(1)),
                            run_layout(fourth.add_to(again, 1), data_parallel(1)), 0),
                IsEmpty());
  }
}

// The whole way from a weight of the model to the loss, against finite differences in fp64.
TEST(Embeddings, GradientsAreThoseOfTheLoss) {
  for (const EmbeddingCase& c : embeddings()) {
    SCOPED_TRACE(c.name);
    TestRun base = c.run;
    base.steps = 1;
    base.max_norm = 0;
    const std::int64_t element = 5;
    std::string name;  // of a matrix in the second layer
    const auto loss_at = [&](double by) {
      TestRun run = base;
      EmbeddingPasses passes;
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
      const RunResult result = run_layout(passes.add_to(run, 1), data_parallel(1));
      EXPECT_TRUE(moved);
      return std::pair(passes.losses.front(), result.gradients.at(name)[element]);
    };
    constexpr double kStep = 1e-5;
    const double slope = (loss_at(kStep).first - loss_at(-kStep).first) / (2 * kStep);
    const double gradient = loss_at(0).second;
    EXPECT_NEAR(gradient, slope, 1e-6 * std::max(1.0, std::abs(slope)));
    EXPECT_GT(std::abs(gradient), 1e-6);
  }
}

}  // namespace
}  // namespace stoa::layouts
