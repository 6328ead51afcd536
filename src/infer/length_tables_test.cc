#include "infer/length_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "device/host/host_device.h"
#include "infer/engine/single_text.h"
#include "infer/engine/text_losses.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kOriginal = 12, kPositions = 40, kVocabulary = 61;

model::ModelConfig tiny_decoder(model::RopeScaling scaling) {
  model::ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 2;
  config.position_embedding_type = model::PositionEmbedding::kRope;
  config.rope_scaling.type = scaling;
  config.rope_scaling.factor = 4;
  if (scaling == model::RopeScaling::kLongrope) {
    config.rope_scaling.original_max_position_embeddings = kOriginal;
    for (int i = 0; i < 8; ++i) {
      config.rope_scaling.short_factor.push_back(1 + 0.1 * i);
      config.rope_scaling.long_factor.push_back(2 + 0.5 * i);
    }
  }
  config.max_position_embeddings = scaling == model::RopeScaling::kDynamic ? kOriginal : kPositions;
  config.encoder_seq_length = 8;
  config.vocab_size = kVocabulary;
  return config;
}

// A model with weights of a formula and a decoder that feeds several tokens at once.
class Model {
 public:
  explicit Model(model::RopeScaling scaling) {
    machine_.pool = std::make_unique<WorkerPool>(1);
    machine_.device = std::make_unique<HostDevice>();
    machine_.backend = std::make_unique<ops::cpu::CpuBackend>(*machine_.pool);
    machine_.stream = machine_.device->create_stream();
    const model::ModelSpec model = model::resolve_model(tiny_decoder(scaling));
    rank_ = make_rank<PagedDecoder>(
        machine_,
        PagedModel::Options{
            .model = model,
            .precision = {DType::kF32, DType::kF32},
            .limits = pass_limits(model, DType::kF32, {.context = kPositions, .sequences = 1, .scored = 1}),
            .losses = true});
    text_.emplace(*rank_);
    auto& parameters = rank_->chunk().parameters();
    for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
      const TensorView weights = parameters.get({static_cast<int>(p)});
      // Scores large enough for positions to matter.
      const float scale = parameters.specs()[p].name.find(".qkv") != std::string::npos ? 2.0f : 0.5f;
      for (std::int64_t i = 0; i < weights.elements(); ++i)
        static_cast<float*>(weights.data)[i] =
            scale * std::sin(static_cast<float>(i * i % 1009 * 7 + static_cast<std::int64_t>(p) * 31 + 1));
    }
  }

  SingleText& text() { return *text_; }
  std::vector<float> fed(std::span<const std::int32_t> tokens) {
    const auto logits = text_->feed(tokens);
    return {logits.begin(), logits.end()};
  }
  // Of all at once, from nothing.
  std::vector<float> fresh(std::span<const std::int32_t> tokens) {
    text().rewind();
    auto out = fed(tokens);
    text().rewind();
    return out;
  }
  std::vector<float> losses(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths) {
    std::vector<float> out(tokens.size());
    std::vector<std::int32_t> labels(tokens.begin(), tokens.end());
    std::rotate(labels.begin(), labels.begin() + 1, labels.end());
    text_losses(*rank_, tokens, labels, lengths, out);
    return out;
  }

 private:
  Machine machine_;
  std::unique_ptr<PagedDecoder> rank_;
  std::optional<SingleText> text_;
};

std::vector<std::int32_t> tokens_of(std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>((i * 17 + 5) % kVocabulary);
  return tokens;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
  return most;
}

// Token by token across the original length gives what the whole text at once gives: short factors up to it,
// long ones for all positions beyond it.
TEST(LengthTables, LongropeFollowsTheLengthReached) {
  Model one(model::RopeScaling::kLongrope), whole(model::RopeScaling::kLongrope);
  const auto tokens = tokens_of(20);
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    const auto step = one.fed(std::span(tokens).subspan(n - 1, 1));
    const auto at_once = whole.fresh(std::span(tokens).first(n));
    EXPECT_LT(largest_difference(step, at_once), 1e-4) << n << " tokens";
  }
  // The factors matter: otherwise nothing was tested.
  Model unscaled(model::RopeScaling::kDefault);
  for (const std::int64_t n : {kOriginal, kOriginal + 1})
    EXPECT_GT(largest_difference(unscaled.fresh(std::span(tokens).first(static_cast<std::size_t>(n))),
                                 whole.fresh(std::span(tokens).first(static_cast<std::size_t>(n)))),
              1e-2)
        << n << " tokens";
}

TEST(LengthTables, LongropeReturnsToShortFactors) {
  Model model(model::RopeScaling::kLongrope);
  const auto tokens = tokens_of(20);
  const auto expected = model.fresh(std::span(tokens).first(8));
  model.fed(tokens);
  model.text().rewind(7);
  EXPECT_LT(largest_difference(model.fed(std::span(tokens).subspan(7, 1)), expected), 1e-4);
}

// Every text is read with the tables of its own length.
TEST(LengthTables, LossesFollowTheLengthOfEachText) {
  for (const auto scaling : {model::RopeScaling::kLongrope, model::RopeScaling::kDynamic}) {
    Model model(scaling);
    const auto tokens = tokens_of(40);
    const std::vector<std::int64_t> lengths{5, 13, 0, 15, 7};
    const auto together = model.losses(tokens, lengths);
    std::size_t begin = 0;
    for (const std::int64_t length : lengths) {
      const auto count = static_cast<std::size_t>(length);
      if (count > 1) {
        const std::vector<std::int64_t> one{length};
        const auto alone = model.losses(std::span(tokens).subspan(begin, count), one);
        EXPECT_LT(largest_difference(std::span(alone).first(count - 1),
                                     std::span(together).subspan(begin, count - 1)),
                  1e-5);
      }
      begin += count;
    }
  }
}

// As in transformers: frequencies of a new token are those of the length that it makes, keys before it stay.
TEST(LengthTables, DynamicStretchesBeyondItsPositions) {
  Model model(model::RopeScaling::kDynamic);
  const auto tokens = tokens_of(20);
  const auto within = model.fresh(std::span(tokens).first(10));
  const auto beyond = model.fresh(tokens);
  // A prompt beyond the positions, then one token: another table than the prompt's.
  model.fed(std::span(tokens).first(19));
  const auto stepped = model.fed(std::span(tokens).subspan(19, 1));
  EXPECT_GT(largest_difference(stepped, beyond), 1e-6);
  EXPECT_LT(largest_difference(stepped, beyond), 1);
  // Back within them nothing is stretched, though keys were.
  model.text().rewind(9);
  EXPECT_LT(largest_difference(model.fed(std::span(tokens).subspan(9, 1)), within), 1e-4);
}

TEST(LengthTables, UsablePositionsAreStretchedByDynamic) {
  EXPECT_EQ(usable_positions(tiny_decoder(model::RopeScaling::kDynamic)), 4 * kOriginal);
  EXPECT_EQ(usable_positions(tiny_decoder(model::RopeScaling::kLongrope)), kPositions);
}

}  // namespace
}  // namespace stoa::infer
