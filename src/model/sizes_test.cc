// Sizes of models that do not fit together are refused.
#include <gtest/gtest.h>

#include "model/model_spec.h"
#include "model/test_kinds.h"

namespace stoa::model {
namespace {

using testing::config_of;
using enum testing::Kind;

TEST(Sizes, AreRefusedWithAReason) {
  ModelConfig c = config_of(kGpt2);
  EXPECT_THROW(resolve_model(c, 20), ConfigError);  // tokenizer has more ids
  c.vocab_size.reset();
  EXPECT_THROW(resolve_model(c), ConfigError);
  EXPECT_EQ(resolve_model(c, 20).padded_vocabulary, 24);
  c = config_of(kGpt2);
  c.num_attention_heads = 3;
  EXPECT_THROW(resolve_model(c), ConfigError);
  c = config_of(kLlama);
  c.num_query_groups = 3;
  EXPECT_THROW(resolve_model(c), ConfigError);
  c = config_of(kGpt2);
  c.task.labels = {"a", "b"};  // of no task
  EXPECT_THROW(resolve_model(c), ConfigError);
  c.task = {.type = Task::kQuestionAnswering,
            .labels = {},
            .classifier_dropout = {},
            .pooling = {}};  // encoders' alone
  EXPECT_THROW(resolve_model(c), ConfigError);
  c.task = {.type = Task::kSequenceClassification,
            .labels = {"a", "b"},
            .classifier_dropout = 0.1,
            .pooling = {}};  // a dropout that decoders have for tokens alone
  EXPECT_THROW(resolve_model(c), ConfigError);
  c = config_of(kBiasParts);
  resolve_model(c);
  c.window_first_layer = 1;  // two ways to say it
  EXPECT_THROW(resolve_model(c), ConfigError);
  c.window_first_layer.reset();
  c.window_layers = {5};
  EXPECT_THROW(resolve_model(c), ConfigError);
  c.window_layers = {1, 1};
  EXPECT_THROW(resolve_model(c), ConfigError);
}

// A model of this kind is good, and no longer with what `spoil` changes.
void expect_refused(int kind, void (*spoil)(ModelConfig&)) {
  ModelConfig c = config_of(kind);
  resolve_model(c);
  spoil(c);
  EXPECT_THROW(resolve_model(c), ConfigError);
}

TEST(Sizes, OfLatentAttentionAreRefusedWithAReason) {
  const auto refused = [](auto spoil) { expect_refused(kLatent, spoil); };
  refused([](ModelConfig& c) { c.num_query_groups = 2; });
  refused([](ModelConfig& c) { c.kv_channels = 9; });        // 4 + 4
  refused([](ModelConfig& c) { c.latent.v_head_dim = 9; });  // wider than keys
  refused([](ModelConfig& c) { c.latent.qk_pos_emb_head_dim = 3; });
  refused([](ModelConfig& c) { c.window_size = 4; });
  refused([](ModelConfig& c) { c.qk_layernorm = true; });
  refused([](ModelConfig& c) { c.bias = BiasKind::kAll; });
  refused([](ModelConfig& c) { c.position_embedding_type = PositionEmbedding::kAlibi; });
}

TEST(Sizes, OfLinearAttentionAreRefusedWithAReason) {
  const auto refused = [](auto spoil) { expect_refused(kLinear, spoil); };
  refused([](ModelConfig& c) { c.linear.linear_num_value_heads = 3; });
  refused([](ModelConfig& c) { c.linear.linear_attention_layers = {0}; });  // beside every third
  refused(
      [](ModelConfig& c) { c.linear.linear_attention_freq.reset(), c.linear.linear_attention_layers = {5}; });
  refused([](ModelConfig& c) { c.kind = ModelKind::kT5; });
  refused([](ModelConfig& c) { c.mup.use_mup = true; });
}

}  // namespace
}  // namespace stoa::model
