#include "model/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/test_model.h"

namespace stoa::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Patterns = std::vector<std::string>;

constexpr std::int64_t kWords = 13;

// Two layers with every kind of parameter that a decoder has.
ModelConfig decoder(Patterns freeze) {
  ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.ffn_hidden_size = 12;
  c.encoder_seq_length = 6;
  c.vocab_size = kWords;
  c.make_vocab_size_divisible_by = 4;
  c.init_method_std = 0.3;
  c.lm_head_bias = true;
  c.freeze = std::move(freeze);
  return c;
}

ModelConfig mixture(Patterns freeze) {
  ModelConfig c = decoder(std::move(freeze));
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.activation = Activation::kSwiglu;
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = false;
  c.attention_sinks = true;
  c.moe.num_moe_experts = 4;
  c.moe.moe_ffn_hidden_size = 6;
  c.moe.moe_shared_expert_intermediate_size = 4;
  c.moe.moe_shared_expert_gate = true;
  c.moe.moe_router_score_function = RouterScoreFunction::kSigmoid;
  c.moe.moe_router_enable_expert_bias = true;
  c.moe.moe_router_bias_update_rate = 0.01;
  return c;
}

ModelConfig linear_attention(Patterns freeze) {
  ModelConfig c = decoder(std::move(freeze));
  c.position_embedding_type = PositionEmbedding::kRope;
  c.linear = {2, {}, 1, 2, 4, 4, 4};
  return c;
}

ModelConfig pairs(Patterns freeze) {
  ModelConfig c = decoder(std::move(freeze));
  c.kind = ModelKind::kT5;
  c.lm_head_bias = false;
  c.position_embedding_type = PositionEmbedding::kRelative;
  c.t5.seq_length_dec = 5;
  c.t5.relative_attention_num_buckets = 8;
  c.t5.relative_attention_max_distance = 10;
  return c;
}

std::string refusal(const ModelConfig& config) {
  try {
    resolve_model(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Freeze, PatternsAreBeginningsOfNames) {
  EXPECT_TRUE(matches_name("embedding", "embedding.tokens.weight"));
  EXPECT_FALSE(matches_name("embed", "embedding.tokens.weight"));
  EXPECT_TRUE(matches_name("layers.1", "layers.1.mlp.up.weight"));
  EXPECT_FALSE(matches_name("layers.1", "layers.12.mlp.up.weight"));
  EXPECT_TRUE(matches_name("layers.3-12", "layers.12.mlp.up.weight"));
  EXPECT_TRUE(matches_name("layers.3-12.mlp", "layers.3.mlp.up.weight"));
  EXPECT_FALSE(matches_name("layers.3-12.mlp", "layers.3.attention.q.weight"));
  EXPECT_FALSE(matches_name("layers.3-12", "layers.2.mlp.up.weight"));
  EXPECT_FALSE(matches_name("layers.3-12", "layers.13.mlp.up.weight"));
  EXPECT_TRUE(matches_name("*", "head.weight"));
  EXPECT_TRUE(matches_name("*.bias", "layers.0.norm1.bias"));
  EXPECT_FALSE(matches_name("*.bias", "layers.0.norm1.weight"));
  EXPECT_TRUE(matches_name("layers.*.norm*", "layers.7.norm2.weight"));
  EXPECT_TRUE(matches_name("*.0-1.mlp", "layers.1.mlp.up.weight"));
}

TEST(Freeze, TheLastPatternThatMatchesDecides) {
  const Patterns freeze{"layers", "!layers.3", "*.bias"};
  EXPECT_TRUE(is_trained(freeze, "head.weight"));
  EXPECT_FALSE(is_trained(freeze, "layers.2.mlp.up.weight"));
  EXPECT_TRUE(is_trained(freeze, "layers.3.mlp.up.weight"));
  EXPECT_FALSE(is_trained(freeze, "layers.3.mlp.up.bias"));
}

TEST(Freeze, WhatCannotBeMeantIsRefused) {
  EXPECT_THAT(refusal(decoder({"embeding"})),
              AllOf(HasSubstr("'embeding' matches no parameter"), HasSubstr("did you mean 'embedding'")));
  EXPECT_THAT(refusal(decoder({"layers.2-5"})), HasSubstr("'layers.2-5' matches no parameter"));
  EXPECT_THAT(refusal(decoder({"layers", "!layer.1"})), HasSubstr("'!layer.1' matches no parameter"));
  EXPECT_THAT(refusal(decoder({"*"})), HasSubstr("freezes every parameter"));
  EXPECT_THAT(refusal(decoder({"layers.0.attention.q"})),
              AllOf(HasSubstr("freezes 'layers.0.attention.q.weight'"), HasSubstr("held in one tensor")));
  EXPECT_EQ(refusal(decoder({"*", "!layers.1"})), "no error");
}

TEST(Freeze, CountsWhatIsTrained) {
  const ModelSpec spec = resolve_model(decoder({"*", "!final_norm"}));
  EXPECT_EQ(trained_parameter_count(spec), 2 * 8);
  EXPECT_EQ(parameter_count(spec), parameter_count(resolve_model(decoder({}))));
}

// Layers from the first that is trained run backward.
TEST(Freeze, FindsTheFirstTrainedLayer) {
  const auto first = [](const ModelConfig& config) {
    const ModelSpec spec = resolve_model(config);
    EXPECT_EQ(first_trained_layer(spec), active_weights(spec).first_trained);
    return first_trained_layer(spec);
  };
  EXPECT_EQ(first(decoder({})), -1);
  EXPECT_EQ(first(decoder({"layers"})), -1);
  EXPECT_EQ(first(decoder({"embedding"})), 0);
  EXPECT_EQ(first(decoder({"embedding", "layers.0"})), 1);
  EXPECT_EQ(first(decoder({"*", "!layers.1.mlp.down.weight"})), 1);
  EXPECT_EQ(first(decoder({"*", "!final_norm"})), 2);
  EXPECT_EQ(first(pairs({"*", "!*relative*"})), 0);
}

TEST(Freeze, CountsTheWeightsThatATokenMeets) {
  const ModelSpec spec = resolve_model(mixture({"embedding", "layers.0", "*.experts"}));
  const ActiveWeights active = active_weights(spec);
  ASSERT_EQ(active.layers.size(), 2u);
  EXPECT_EQ(active.embedding.trained, 0);
  EXPECT_EQ(active.layers[0].trained, 0);
  EXPECT_EQ(active.layers[0].all, active.layers[1].all);
  EXPECT_EQ(active.layers[1].all - active.layers[1].trained, 2 * 3 * 8 * 6);  // two experts of four
  EXPECT_EQ(active.head.trained, active.head.all);
  EXPECT_EQ(active.embedding.all + 2 * active.layers[0].all + active.head.all, active_parameter_count(spec));
}

struct Gradients {
  double loss = 0;
  std::map<std::string, std::vector<double>> by_name;  // none of frozen tensors
  std::size_t accumulators = 0;
};

Gradients gradients_of(const ModelConfig& config, bool split) {
  const ModelSpec spec = resolve_model(config);
  ChunkOptions options;
  options.layers = config.num_layers;
  options.precision = testing::fp64();
  options.tokens = 2 * config.sample_length();
  options.split_backward = split;
  testing::Model model(spec, options, testing::reference());
  model.initialize_all(5);
  using testing::Batch;
  using testing::ids;
  std::vector<Batch> batches;
  for (std::uint64_t seed : {1, 4})
    batches.push_back(
        config.kind == ModelKind::kT5
            ? Batch::pairs(2, ids(12, kWords, seed), ids(10, kWords, seed + 1), ids(10, kWords, seed + 2))
            : Batch(2, ids(12, kWords, seed), ids(12, kWords, seed + 1)));
  Gradients out;
  out.loss = model.step(batches, split);
  out.accumulators = model.chunk.params().grads().size();
  for (const auto& tensor : canonical_tensors(spec))
    if (auto gradient = model.canonical(tensor.name, true); !gradient.empty())
      out.by_name[tensor.name] = std::move(gradient);
  return out;
}

// The gradients of what is trained are those of a run in which everything is, over two microbatches; what is
// frozen has none.
void expect_gradients_of_the_rest(const std::function<ModelConfig(Patterns)>& config,
                                  const Patterns& freeze) {
  for (const bool split : {false, true}) {
    SCOPED_TRACE(::testing::PrintToString(freeze) + (split ? ", split" : ""));
    const Gradients all = gradients_of(config({}), split), some = gradients_of(config(freeze), split);
    EXPECT_EQ(all.loss, some.loss);
    EXPECT_LT(some.accumulators, all.accumulators);
    std::size_t trained = 0;
    for (const auto& [name, expected] : all.by_name) {
      const auto found = some.by_name.find(name);
      ASSERT_EQ(found != some.by_name.end(), is_trained(freeze, name)) << name;
      if (found == some.by_name.end()) continue;
      ++trained;
      ASSERT_EQ(found->second.size(), expected.size()) << name;
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found->second[i], expected[i], 1e-13 * (1 + std::abs(expected[i]))) << name;
    }
    EXPECT_EQ(trained, some.by_name.size());
  }
}

TEST(Freeze, GradientsOfTheRest) {
  for (const Patterns& freeze :
       {Patterns{"embedding"}, Patterns{"embedding", "layers.0"}, Patterns{"*", "!final_norm"},
        Patterns{"*", "!*.bias"}, Patterns{"*.bias"}, Patterns{"embedding.tokens"},
        Patterns{"embedding.positions"}, Patterns{"*norm*.weight"}, Patterns{"layers.1", "final_norm"},
        Patterns{"*", "!layers.1.mlp.down.weight"}, Patterns{"*", "!head.bias"}})
    expect_gradients_of_the_rest(decoder, freeze);
}

TEST(Freeze, GradientsOfTheRestWithExperts) {
  for (const Patterns& freeze :
       {Patterns{"embedding", "layers.0"}, Patterns{"*", "!*.experts"}, Patterns{"*.experts"},
        Patterns{"*.router"}, Patterns{"*", "!*.router"}, Patterns{"*.sinks"}, Patterns{"head"}})
    expect_gradients_of_the_rest(mixture, freeze);
}

TEST(Freeze, GradientsOfTheRestWithLinearAttention) {
  for (const Patterns& freeze : {Patterns{"*.delta"}, Patterns{"*", "!*.delta"},
                                 Patterns{"*", "!*.step_bias"}, Patterns{"*.step_bias"}})
    expect_gradients_of_the_rest(linear_attention, freeze);
}

TEST(Freeze, GradientsOfTheRestOfPairs) {
  for (const Patterns& freeze : {Patterns{"*relative*"}, Patterns{"*", "!*relative*"}, Patterns{"embedding"}})
    expect_gradients_of_the_rest(pairs, freeze);
}

}  // namespace
}  // namespace stoa::model
