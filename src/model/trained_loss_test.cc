// The loss that is trained against its formula (ops/loss.h), from the logits of the same model: every kind of
// model must hand model.label_smoothing and model.z_loss_coeff on to its head.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "model/test_model.h"

namespace stoa::model {
namespace {

using testing::Batch;
using testing::Model;

constexpr std::int64_t kVocabulary = 11;

ModelConfig plain_model(ModelKind kind) {
  ModelConfig c;
  c.kind = kind;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.ffn_hidden_size = 12;
  c.encoder_seq_length = 6;
  c.vocab_size = kVocabulary;
  c.make_vocab_size_divisible_by = 4;
  c.init_method_std = 0.3;
  c.bert.binary_head = false;
  c.t5.seq_length_dec = 5;
  if (kind == ModelKind::kT5) c.position_embedding_type = PositionEmbedding::kRelative;
  return c;
}

Batch plain_batch(const ModelConfig& c) {
  if (c.kind == ModelKind::kBert) return Batch::masked({6, 4}, 6, kVocabulary, 1);
  if (c.kind == ModelKind::kT5)
    return Batch::pairs(2, testing::ids(12, kVocabulary, 1), testing::ids(10, kVocabulary, 2),
                        testing::ids(10, kVocabulary, 3));
  Batch out(2, testing::ids(12, kVocabulary, 1), testing::ids(12, kVocabulary, 2));
  out.mask[3] = out.mask[8] = 0;
  return out;
}

struct Trained {
  double loss = 0, plain = 0;  // of training and of evaluation
  double by_formula = 0;       // what the former should be
  std::vector<double> gradient;
};

Trained train(ModelConfig config, double smoothing, double z_weight) {
  config.label_smoothing = smoothing;
  config.z_loss_coeff = z_weight;
  const ModelSpec spec = resolve_model(config);
  ChunkOptions options;
  options.layers = config.num_layers;
  options.precision = testing::fp64();
  options.tokens = 2 * config.sample_length();
  Model model(spec, options, testing::reference());
  model.initialize_all(5);
  Batch batch = plain_batch(config);
  std::vector<double> losses;
  const std::vector<double> logits = model.logits(batch, &losses);
  Trained out;
  double rows = 0;
  const auto add = [&](std::int64_t row, std::int32_t label, double evaluated) {
    const std::span<const double> x =
        std::span(logits).subspan(static_cast<std::size_t>(row * kVocabulary), kVocabulary);
    double exponentials = 0, sum = 0;
    for (const double v : x) exponentials += std::exp(v), sum += v;
    const double lse = std::log(exponentials);
    out.by_formula += lse - (1 - smoothing) * x[static_cast<std::size_t>(label)] -
                      smoothing / static_cast<double>(kVocabulary) * sum + z_weight * lse * lse;
    out.plain += evaluated;
    ++rows;
  };
  const auto source = static_cast<std::size_t>(batch.source);
  if (config.kind == ModelKind::kBert) {
    for (std::size_t i = 0; i < batch.masked_labels.size(); ++i)
      add(batch.masked_rows[i], batch.masked_labels[i], losses[i]);
  } else {
    for (std::size_t i = source; i < batch.mask.size(); ++i)
      if (batch.mask[i] > 0) add(static_cast<std::int64_t>(i - source), batch.labels[i], losses[i]);
  }
  out.by_formula /= rows, out.plain /= rows;
  out.loss = model.step(batch);
  for (const auto& tensor : canonical_tensors(spec))
    for (const double g : model.canonical(tensor.name, true)) out.gradient.push_back(g);
  return out;
}

TEST(TrainedLoss, HasTheSmoothingAndTheZLossOfTheConfiguration) {
  for (const ModelKind kind : {ModelKind::kGpt, ModelKind::kBert, ModelKind::kT5}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const ModelConfig config = plain_model(kind);
    const Trained plain = train(config, 0, 0);
    EXPECT_NEAR(plain.loss, plain.by_formula, 1e-12);
    EXPECT_NEAR(plain.loss, plain.plain, 1e-12);
    for (const auto& [smoothing, z_weight] : {std::pair(0.2, 0.0), {0.0, 0.1}, {0.1, 0.05}}) {
      SCOPED_TRACE(smoothing);
      const Trained t = train(config, smoothing, z_weight);
      EXPECT_NEAR(t.loss, t.by_formula, 1e-12);
      EXPECT_EQ(t.plain, plain.plain) << "evaluation has the plain loss";
      EXPECT_GT(std::abs(t.loss - plain.loss), 1e-3);
      EXPECT_NE(t.gradient, plain.gradient);
    }
  }
}

}  // namespace
}  // namespace stoa::model
