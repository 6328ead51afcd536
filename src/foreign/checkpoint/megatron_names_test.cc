#include "foreign/checkpoint/megatron_names.h"

#include <gtest/gtest.h>

namespace stoa::foreign {
namespace {

std::string read(std::string_view stored, bool gpt = true) {
  const auto name = megatron_name(stored, gpt);
  return name ? name->name : "";
}

TEST(MegatronNames, OfEveryVersionAreOne) {
  const std::string qkv = "decoder.layers.3.self_attention.linear_qkv.weight";
  EXPECT_EQ(read("decoder.layers.3.self_attention.linear_qkv.weight"), qkv);
  EXPECT_EQ(read("module.module.decoder.layers.3.self_attention.linear_qkv.weight"), qkv);
  EXPECT_EQ(read("language_model.encoder.layers.3.self_attention.query_key_value.weight"), qkv);
  EXPECT_EQ(read("decoder.layers.3.self_attention.linear_qkv.layer_norm_weight"),
            "decoder.layers.3.input_layernorm.weight");
  EXPECT_EQ(read("language_model.encoder.final_norm.weight"), "decoder.final_layernorm.weight");
  EXPECT_EQ(read("encoder.layers.0.mlp.dense_h_to_4h.bias", false), "encoder.layers.0.mlp.linear_fc1.bias");
  EXPECT_EQ(read("model.language_model.embedding.word_embeddings.weight"),
            "embedding.word_embeddings.weight");
}

TEST(MegatronNames, OfExperts) {
  const std::string one = "decoder.layers.1.mlp.experts.5.linear_fc1.weight";
  EXPECT_EQ(read("decoder.layers.1.mlp.experts.local_experts.5.linear_fc1.weight"), one);
  EXPECT_EQ(read("decoder.layers.1.mlp.experts.linear_fc1.weight5"), one);
  EXPECT_EQ(read("decoder.layers.1.mlp.experts.experts.5.linear_fc1.weight"), one);
  const auto all = megatron_name("decoder.layers.mlp.experts.experts.linear_fc2.weight", true);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->name, "decoder.layers.{}.mlp.experts.{}.linear_fc2.weight");
  EXPECT_TRUE(all->layers);
  EXPECT_TRUE(all->experts);
  const auto half = megatron_name("decoder.layers.1.mlp.linear_fc1.weight_v", true);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->half, MegatronName::Half::kUp);
  EXPECT_EQ(half->name, "decoder.layers.1.mlp.linear_fc1.weight");
}

TEST(MegatronNames, OfStatesAreNone) {
  for (const char* name : {"decoder.layers.mlp.linear_fc1._extra_state/shard_0_2",
                           "decoder.layers.0.mlp.linear_fc1._extra_state",
                           "optimizer.state.exp_avg.decoder.final_layernorm.weight", "rng_state/shard_0_1",
                           "decoder.layers.1.mlp.router.local_tokens_per_expert"})
    EXPECT_EQ(read(name), "") << name;
}

}  // namespace
}  // namespace stoa::foreign
