#include "run/token_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"

namespace stoa::run {
namespace {

std::map<int, int> draw(SamplingOptions options, std::vector<float> logits,
                        std::vector<std::int32_t> seen = {}, int n = 4000) {
  TokenSampler sampler(options);
  std::map<int, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler.next(logits, seen)];
  return counts;
}

TEST(TokenSampler, GreedyTakesTheLowestOfTheBest) {
  EXPECT_EQ(draw({.greedy = true}, {1, 3, 3, 2}).size(), 1u);
  EXPECT_EQ(TokenSampler({.temperature = 0}).next(std::vector<float>{1, 3, 3, 2}, {}), 1);
}

TEST(TokenSampler, PenaltyLowersNegativeLogitsToo) {
  // -1 becomes -2 and falls behind -1.5; 1 becomes 0.5.
  TokenSampler greedy({.greedy = true, .repetition_penalty = 2.0});
  EXPECT_EQ(greedy.next(std::vector<float>{-1.0f, -1.5f}, std::vector<std::int32_t>{0}), 1);
  EXPECT_EQ(greedy.next(std::vector<float>{1.0f, 0.6f}, std::vector<std::int32_t>{0, 0}), 1);
}

TEST(TokenSampler, FrequenciesFollowTheSoftmax) {
  const auto counts = draw({}, {0.0f, std::log(3.0f)}, {}, 20000);
  EXPECT_NEAR(counts.at(1) / 20000.0, 0.75, 0.01);
}

TEST(TokenSampler, TopKTopPMinPCutTheTail) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  EXPECT_EQ(draw({.top_k = 2}, logits).size(), 2u);
  EXPECT_EQ(draw({.top_p = 0.5}, logits).size(), 1u);
  EXPECT_EQ(draw({.top_p = 0.79}, logits).size(), 2u);
  EXPECT_EQ(draw({.min_p = 0.25}, logits).size(), 3u);
}

TEST(TokenSampler, SeedDecidesTheDraws) {
  const std::vector<float> logits(50, 0.0f);
  TokenSampler a({.seed = 7}), b({.seed = 7}), c({.seed = 8});
  int different = 0;
  for (int i = 0; i < 20; ++i) {
    const int x = a.next(logits, {});
    EXPECT_EQ(x, b.next(logits, {}));
    different += x != c.next(logits, {});
  }
  EXPECT_GT(different, 10);
}

TEST(TokenSampler, RefusesImpossibleOptions) {
  EXPECT_THROW(TokenSampler({.temperature = -1}), ConfigError);
  EXPECT_THROW(TokenSampler({.top_p = 0}), ConfigError);
  EXPECT_THROW(TokenSampler({.repetition_penalty = 0}), ConfigError);
}

}  // namespace
}  // namespace stoa::run
