#include "infer/engine/text_losses.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "infer/engine/simulated_model.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kIds = 23;

struct SomeTexts {
  std::vector<std::int32_t> tokens, labels;
  std::vector<std::int64_t> lengths;

  explicit SomeTexts(std::int64_t longest) {
    std::mt19937 random(11);
    for (int i = 0; i < 40; ++i) {
      // Some begin alike, one is empty, one is as long as can be.
      const std::int64_t length = i == 7   ? 0
                                  : i == 9 ? longest
                                           : 1 + static_cast<std::int64_t>(random()) % longest;
      lengths.push_back(length);
      for (std::int64_t t = 0; t < length; ++t) {
        tokens.push_back(t < 20 && i % 3 == 0 ? static_cast<std::int32_t>(t % kIds)
                                              : static_cast<std::int32_t>(random() % kIds));
        labels.push_back(static_cast<std::int32_t>(random() % kIds));
      }
    }
  }
};

// Passes that hold many texts, parts of texts, and little memory: every token's loss is that of its own text.
TEST(TextLosses, EveryTokenHasTheLossOfItsText) {
  const SomeTexts texts(30);
  for (const PassLimits& limits :
       {PassLimits{16, 200, 128, 512, 128, 128, kIds, true}, PassLimits{4, 12, 128, 9, 3, 3, kIds, true},
        PassLimits{16, 4, 128, 64, 16, 16, kIds, true}, PassLimits{128, 1, 128, 7, 1, 1, kIds, false}}) {
    SimulatedModel model(limits);
    std::vector<float> losses(texts.tokens.size(), -1);
    text_losses(model, texts.tokens, texts.labels, texts.lengths, losses);
    std::size_t begin = 0;
    for (const std::int64_t length : texts.lengths) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t)
        ASSERT_EQ(losses[begin + t], SimulatedModel::loss_of(std::span(texts.tokens).subspan(begin, t + 1),
                                                             texts.labels[begin + t], kIds));
      begin += static_cast<std::size_t>(length);
    }
  }
}

TEST(TextLosses, OfTargetsGivenTheirSources) {
  std::mt19937 random(5);
  std::vector<TokenPair> pairs(30);
  for (TokenPair& pair : pairs) {
    pair.source.resize(1 + random() % 20);
    pair.target.resize(1 + random() % 15);
    for (auto* side : {&pair.source, &pair.target})
      for (auto& id : *side) id = static_cast<std::int32_t>(random() % kIds);
  }
  for (PassLimits limits :
       {PassLimits{16, 200, 16, 512, 128, 128, kIds, true}, PassLimits{4, 11, 16, 3, 3, 3, kIds, true},
        PassLimits{4, 30, 16, 20, 9, 9, kIds, false}}) {
    limits.source_tokens = 23;
    limits.start = 2;
    limits.virtual_tokens = 3;
    SimulatedModel model(limits);
    const auto losses = pair_losses(model, pairs);
    ASSERT_EQ(losses.size(), pairs.size());
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      std::vector<std::int32_t> read{kIds, kIds + 1, kIds + 2};
      read.insert(read.end(), pairs[p].source.begin(), pairs[p].source.end());
      read.push_back(2);
      ASSERT_EQ(losses[p].size(), pairs[p].target.size());
      for (std::size_t t = 0; t < pairs[p].target.size(); ++t) {
        ASSERT_EQ(losses[p][t], SimulatedModel::loss_of(read, pairs[p].target[t], kIds)) << p;
        read.push_back(pairs[p].target[t]);
      }
    }
  }
}

TEST(TextLosses, VirtualTokensComeFirstAndHaveNone) {
  PassLimits limits{16, 200, 128, 24, 8, 8, kIds, true};
  limits.virtual_tokens = 3;
  SimulatedModel model(limits);
  EXPECT_EQ(longest_text(limits), 125);
  const std::vector<std::int32_t> ids{4, 5, 6, 7, 8, 9};
  const std::vector<float> losses = text_losses(model, ids);
  ASSERT_EQ(losses.size(), 5U);
  std::vector<std::int32_t> read{kIds, kIds + 1, kIds + 2};
  for (std::size_t t = 0; t < losses.size(); ++t) {
    read.push_back(ids[t]);
    EXPECT_EQ(losses[t], SimulatedModel::loss_of(read, ids[t + 1], kIds)) << t;
  }
}

TEST(TextLosses, ATextOfOneTokenPredictsNothing) {
  SimulatedModel model(PassLimits{16, 20, 128, 64, 1, 1, kIds, true});
  EXPECT_TRUE(text_losses(model, std::vector<std::int32_t>{3}).empty());
  EXPECT_TRUE(text_losses(model, std::vector<std::int32_t>{}).empty());
}

TEST(TextLosses, LongerTextsThanTheModelWasLoadedForAreErrors) {
  SimulatedModel model(PassLimits{16, 2, 128, 64, 1, 1, kIds, true});
  EXPECT_THROW(text_losses(model, std::vector<std::int32_t>(34, 1)), InternalError);
  EXPECT_EQ(text_losses(model, std::vector<std::int32_t>(33, 1)).size(), 32U);
}

}  // namespace
}  // namespace stoa::infer
