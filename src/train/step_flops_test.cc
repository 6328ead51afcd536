#include "train/step_flops.h"

#include <gtest/gtest.h>

namespace stoa::train {
namespace {

constexpr std::int64_t kSequence = 32;
constexpr double kAttention = 2.0 * 64 * kSequence;  // a layer's forward pass

model::ModelConfig config_of(std::vector<std::string> freeze) {
  model::ModelConfig c;
  c.num_layers = 4;
  c.hidden_size = 64;
  c.num_attention_heads = 4;
  c.encoder_seq_length = kSequence;
  c.vocab_size = 512;
  c.share_embeddings_and_output_weights = false;
  c.freeze = std::move(freeze);
  return c;
}

double flops_of(const model::ModelConfig& config) {
  return model_flops_per_token(model::resolve_model(config), kSequence);
}

TEST(StepFlops, SixPerWeightAndAttention) {
  const model::ModelSpec spec = model::resolve_model(config_of({}));
  EXPECT_EQ(model_flops_per_token(spec, kSequence),
            6.0 * static_cast<double>(model::parameter_count(spec)) + 4 * 3 * kAttention);
}

// What is frozen has no weight gradient, what lies before the first trained layer no backward pass.
TEST(StepFlops, FrozenWeightsHaveNoGradient) {
  const double all = flops_of(config_of({}));
  const model::ActiveWeights active = model::active_weights(model::resolve_model(config_of({})));
  const auto layer = static_cast<double>(active.layers[0].all),
             embedding = static_cast<double>(active.embedding.all);
  EXPECT_EQ(flops_of(config_of({"layers.1"})), all - 2 * layer);
  EXPECT_EQ(flops_of(config_of({"layers.2-3"})), all - 4 * layer);
  EXPECT_EQ(flops_of(config_of({"embedding"})), all - 4 * embedding);
  EXPECT_EQ(flops_of(config_of({"embedding", "layers.0-1"})),
            all - 4 * embedding - 2 * (4 * layer + 2 * kAttention));
}

TEST(StepFlops, RecomputedLayersCountOnceMore) {
  for (const auto& [freeze, layers] :
       {std::pair<std::vector<std::string>, int>{{}, 4}, {{"embedding", "layers.0"}, 3}}) {
    model::ModelConfig config = config_of(freeze);
    config.recompute.granularity = model::RecomputeGranularity::kFull;
    const model::ModelSpec spec = model::resolve_model(config);
    const auto layer = static_cast<double>(model::active_weights(spec).layers[0].all);
    EXPECT_EQ(executed_flops_per_token(spec, kSequence),
              model_flops_per_token(spec, kSequence) + layers * (2 * layer + kAttention));
  }
}

}  // namespace
}  // namespace stoa::train
