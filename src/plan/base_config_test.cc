#include "plan/base_config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoa::plan {
namespace {

struct Known {
  double billions;
  std::int64_t layers, hidden;
};

// What NVIDIA's tool makes of its presets (the rule was worked out from its tables).
TEST(BaseConfig, GptShapesAreThoseOfTheTool) {
  const Known known[] = {{0.126, 12, 768},  {0.843, 26, 1536}, {2, 24, 2560},    {5, 24, 4096},
                         {8, 24, 5120},     {13, 40, 5120},    {20, 44, 6144},   {40, 48, 8192},
                         {43, 52, 8192},    {89, 64, 10240},   {175, 96, 12288}, {310, 64, 20480},
                         {530, 106, 20480}, {1000, 128, 25600}};
  for (const Known& k : known) {
    const BaseConfig base = base_config({BaseFamily::kGpt, k.billions * 1e9});
    EXPECT_EQ(base.model.num_layers, k.layers) << k.billions;
    EXPECT_EQ(base.model.hidden_size, k.hidden) << k.billions;
    EXPECT_NEAR(base.parameters / (k.billions * 1e9), 1, 0.1);
  }
}

TEST(BaseConfig, EncodersAreThoseOfTheTool) {
  const Known known[] = {
      {0.22, 12, 768}, {11, 24, 4096}, {23.5, 36, 5120}, {41.2, 48, 6144}, {203, 48, 12288}};
  for (const Known& k : known)
    EXPECT_EQ(base_config({BaseFamily::kT5, k.billions * 1e9}).model.num_layers, k.layers) << k.billions;
  const Known berts[] = {{0.11, 12, 768}, {4, 48, 2560}, {20, 44, 6144}, {100, 96, 9216}};
  for (const Known& k : berts)
    EXPECT_EQ(base_config({BaseFamily::kBert, k.billions * 1e9}).model.num_layers, k.layers) << k.billions;
}

TEST(BaseConfig, LlamasAndExpertsAreThoseOfTheirPapers) {
  const auto llama = [](double billions) { return base_config({BaseFamily::kLlama, billions * 1e9}).model; };
  EXPECT_EQ(llama(8).num_layers, 32);
  EXPECT_EQ(llama(70.6).num_layers, 80);
  EXPECT_EQ(llama(405).num_layers, 128);  // the paper has 126: a power of two that is near comes first
  const BaseConfig mixtral = base_config({BaseFamily::kMoe, 46.7e9});
  EXPECT_EQ(mixtral.model.num_layers, 32);
  EXPECT_NEAR(mixtral.active_parameters, 12.9e9, 0.1e9);
}

TEST(BaseConfig, TrainingFollowsTokens) {
  const BaseConfig base = base_config({BaseFamily::kGpt, 5e9, 300e9});
  EXPECT_EQ(base.global_batch, 2048);
  EXPECT_EQ(base.max_steps, 71526);  // 300e9 / (2048 * 2048)
  EXPECT_DOUBLE_EQ(base.lr, 1.2e-4);
  BaseRequest longer{BaseFamily::kGpt, 5e9, 300e9, 8192};
  EXPECT_EQ(base_config(longer).global_batch, 512);  // tokens per step stay
}

TEST(BaseConfig, SaysWhereTablesEnd) {
  EXPECT_THROW(base_config({BaseFamily::kGpt, 2e12}), ConfigError);
  EXPECT_THROW(base_config({BaseFamily::kGpt, 1e3}), ConfigError);
}

}  // namespace
}  // namespace stoa::plan
