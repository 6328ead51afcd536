#include "infer/token_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"

namespace stoa::infer {
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

TEST(TokenSampler, TheLikeliestIsTheFirstOfTheLargest) {
  std::vector<float> logits(1237);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -5 - std::sin(static_cast<float>(i));
  for (const std::size_t place : {0, 15, 16, 511, 512, 700, 1023, 1024, 1232, 1236}) {
    std::vector<float> changed = logits;
    changed[place] = -1;
    if (place + 3 < changed.size()) changed[place + 3] = -1;
    EXPECT_EQ(likeliest(changed), static_cast<std::int32_t>(place));
  }
  EXPECT_EQ(likeliest(std::vector<float>{-INFINITY, -INFINITY}), 0);
}

// The rule as its options say it, over everything sorted.
std::int32_t next_of_sorted(const SamplingOptions& o, std::span<const float> logits, std::uint64_t draws) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  if (o.top_k > 0) ids.resize(static_cast<std::size_t>(o.top_k));
  const auto weight = [&](std::size_t i) {
    return std::exp((static_cast<double>(logits[ids[i]]) - logits[ids[0]]) / o.temperature);
  };
  double total = 0, sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) total += weight(i);
  std::size_t kept = 0;
  for (; kept < ids.size() && sum < o.top_p * total; ++kept) sum += weight(kept);
  while (kept > 1 && weight(kept - 1) < o.min_p) sum -= weight(--kept);
  const PhiloxKey key = philox_key(o.seed, RandomPurpose::kSampling, "tokens");
  const double draw = static_cast<double>(philox_word(key, draws)) * 0x1p-32 * sum;
  double reached = 0;
  for (std::size_t i = 0; i < kept; ++i)
    if (draw < (reached += weight(i))) return ids[i];
  return ids[kept - 1];
}

TEST(TokenSampler, DrawsAreThoseOfASortedVocabulary) {
  std::vector<float> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = 4 * std::sin(static_cast<float>(i * i)) + static_cast<float>(i % 7);
  for (const SamplingOptions& o :
       {SamplingOptions{.seed = 1}, SamplingOptions{.temperature = 5, .seed = 2},
        SamplingOptions{.temperature = 0.2, .seed = 3}, SamplingOptions{.top_k = 300, .seed = 4},
        SamplingOptions{.top_p = 0.9, .seed = 5}, SamplingOptions{.temperature = 3, .min_p = 0.3, .seed = 6},
        SamplingOptions{.top_k = 1000, .top_p = 0.7, .min_p = 0.01, .seed = 7}}) {
    TokenSampler sampler(o);
    for (std::uint64_t n = 0; n < 200; ++n) EXPECT_EQ(sampler.next(logits, {}), next_of_sorted(o, logits, n));
  }
}

// Draws that are made elsewhere, of rows of a table, are those of the host.
TEST(TokenSampler, WishesAreWhatTheHostDraws) {
  std::vector<float> logits(700);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 3 * std::sin(static_cast<float>(i * i));
  for (const SamplingOptions& o :
       {SamplingOptions{.temperature = 2, .seed = 1}, SamplingOptions{.top_k = 30, .top_p = 0.9, .seed = 2},
        SamplingOptions{.temperature = 3, .min_p = 0.1, .order = SamplerOrder::kLlamaCpp},
        SamplingOptions{.temperature = 3, .top_p = 0.8, .min_p = 0.1, .order = SamplerOrder::kVllm}}) {
    TokenSampler host(o, 1), other(o, 1);
    ops::HostDraw elsewhere;
    for (int n = 0; n < 50; ++n) {
      const RowWish wish = other.wish();
      ASSERT_EQ(wish.kind, RowWish::Kind::kDrawn);
      const std::int32_t id = elsewhere.draw(logits, wish.draw);
      EXPECT_EQ(host.next(logits, {}), id) << n;
      other.take(id);
    }
  }
}

TEST(TokenSampler, WishesForLogitsWhereMoreThanThemCounts) {
  using Kind = RowWish::Kind;
  const auto kind = [](const SamplingOptions& o) { return TokenSampler(o).wish().kind; };
  EXPECT_EQ(kind({}), Kind::kDrawn);
  EXPECT_EQ(kind({.temperature = 0.5, .top_k = 3, .top_p = 0.9, .min_p = 0.1}), Kind::kDrawn);
  EXPECT_EQ(kind({.greedy = true}), Kind::kMostLikely);
  EXPECT_EQ(kind({.temperature = 0}), Kind::kMostLikely);
  for (const SamplingOptions& o :
       {SamplingOptions{.repetition_penalty = 1.1}, SamplingOptions{.suppressed = {1}},
        SamplingOptions{.suppressed_first = {1}}, SamplingOptions{.bad_words = {{1, 2}}},
        SamplingOptions{.presence_penalty = 0.1}, SamplingOptions{.frequency_penalty = 0.1},
        SamplingOptions{.logit_bias = {{1, 2.0F}}}, SamplingOptions{.min_tokens = 2, .ends = {1}}})
    EXPECT_EQ(kind(o), Kind::kLogits);
  // The end is near enough after two tokens.
  TokenSampler sampler({.min_tokens = 2, .ends = {1}});
  for (int i = 0; i < 2; ++i) sampler.take(3);
  EXPECT_EQ(sampler.wish().kind, Kind::kDrawn);
}

TEST(TokenSampler, LogitsThatAreNoNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const SamplingOptions options{.temperature = 2, .top_k = 3, .top_p = 0.9, .min_p = 0.01};
  TokenSampler sampler(options);
  EXPECT_EQ(sampler.next(std::vector<float>{1, INFINITY, 2, INFINITY}, {}), 1);
  EXPECT_EQ(sampler.next(std::vector<float>{kNan, kNan}, {}), 0);
  EXPECT_EQ(sampler.next(std::vector<float>{-INFINITY, -INFINITY}, {}), 0);
  for (int i = 0; i < 200; ++i) {
    const std::int32_t id = sampler.next(std::vector<float>{1, 2, -INFINITY, 1}, {});
    EXPECT_NE(id, 2);
  }
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

TEST(TokenSampler, ProcessedLogitsAreThoseThatAreDrawnFrom) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> out;
  TokenSampler({.temperature = 2, .top_k = 2}).processed(std::vector<float>{1, 4, 3, 3}, {}, nullptr, out);
  EXPECT_EQ(out, (std::vector<float>{kNever, 2, 1.5, kNever}));
  TokenSampler({.greedy = true, .temperature = 2, .suppressed = {1}})
      .processed(std::vector<float>{1, 4, 3, 3}, {}, nullptr, out);
  EXPECT_EQ(out, (std::vector<float>{1, kNever, 3, 3}));

  const std::vector<float> logits{0.5, 2, 1.5, 1.5, -1, 0};
  constexpr int kDraws = 20'000;
  for (const SamplingOptions& o : std::vector<SamplingOptions>{
           {},
           {.temperature = 0.7, .top_p = 0.8},
           {.temperature = 1.5, .min_p = 0.3},
           {.temperature = 1.5, .top_k = 3, .order = SamplerOrder::kLlamaCpp},
           {.temperature = 0.5, .top_p = 0.9, .min_p = 0.2, .order = SamplerOrder::kVllm},
           {.top_k = 4, .repetition_penalty = 1.3, .logit_bias = {{4, 2.5F}}}}) {
    const std::vector<std::int32_t> seen{1};
    TokenSampler(o).processed(logits, seen, nullptr, out);
    double sum = 0;
    for (const float x : out) sum += std::exp(x);
    std::map<int, int> drawn = draw(o, logits, seen, kDraws);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double expected = std::exp(out[i]) / sum;
      EXPECT_NEAR(drawn[static_cast<int>(i)] / double{kDraws}, expected, 0.015) << i;
      if (expected == 0) {
        EXPECT_EQ(drawn[static_cast<int>(i)], 0) << i;
      }
    }
  }
}

// Against sums in double precision over the few tokens.
TEST(TokenSampler, FurtherCuts) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto logits = [](std::initializer_list<double> probabilities) {
    std::vector<float> out;
    for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
    return out;
  };
  const auto left = [&](const SamplingOptions& o, const std::vector<float>& scores) {
    std::vector<float> out;
    TokenSampler(o).processed(scores, {}, nullptr, out);
    std::vector<int> ids;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] != kNever) ids.push_back(static_cast<int>(i));
    return ids;
  };
  using Ids = std::vector<int>;
  // Entropy 1.088: surprises are 0.69, 1.39, 1.90 and 2.30, distances 0.40, 0.30, 0.81 and 1.21.
  const auto four = logits({0.5, 0.25, 0.15, 0.1});
  EXPECT_EQ(left({.further = {.typical_p = 0.2}}, four), Ids{1});
  EXPECT_EQ(left({.further = {.typical_p = 0.3}}, four), (Ids{0, 1}));
  EXPECT_EQ(left({.further = {.typical_p = 0.8}}, four), (Ids{0, 1, 2}));
  // Mean 2, deviation sqrt(3.5).
  const std::vector<float> plain{5, 1, 0, 2};
  EXPECT_EQ(left({.further = {.top_n_sigma = 1.6}}, plain), Ids{0});
  EXPECT_EQ(left({.further = {.top_n_sigma = 1.7}}, plain), (Ids{0, 3}));
  // All but the least likely of those with the threshold's probability; never where one has it.
  EXPECT_EQ(left({.further = {.xtc_probability = 1, .xtc_threshold = 0.2}}, four), (Ids{1, 2, 3}));
  EXPECT_EQ(left({.further = {.xtc_probability = 1, .xtc_threshold = 0.4}}, four), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(left({.further = {.xtc_probability = 1, .xtc_threshold = 0.6}}, four), (Ids{0, 1, 2, 3}));
  // In turn with other cuts: typical sampling comes after top-k in one order, after top-p in the others.
  const SamplingOptions llama{.top_k = 2, .further = {.typical_p = 0.2}, .order = SamplerOrder::kLlamaCpp};
  EXPECT_EQ(left(llama, four).size(), 1u);
  SamplingOptions both{.top_p = 0.6, .further = {.typical_p = 0.2}};
  EXPECT_EQ(left(both, four), Ids{0});  // of 2/3 and 1/3 the first is nearer to what is expected
  both.order = SamplerOrder::kLlamaCpp;
  EXPECT_EQ(left(both, four), Ids{1});
  // Where nothing else is cut, the order of llama.cpp leaves what its last step, the temperature, makes
  // likely.
  std::vector<float> far(1000, -40);
  far[0] = 0;
  EXPECT_EQ(
      left({.temperature = 10, .further = {.xtc_probability = 1e-9}, .order = SamplerOrder::kLlamaCpp}, far)
          .size(),
      1000u);
  // What is drawn follows what is left, and XTC comes as often as asked for.
  std::map<int, int> drawn =
      draw({.further = {.xtc_probability = 0.5, .xtc_threshold = 0.2}}, four, {}, 20'000);
  EXPECT_NEAR(drawn[0] / 2e4, 0.25, 0.015);
  EXPECT_NEAR(drawn[1] / 2e4, 0.125 + 0.25, 0.015);
  EXPECT_EQ(TokenSampler({.further = {.top_n_sigma = 1}}).wish().kind, RowWish::Kind::kLogits);
  EXPECT_THROW(TokenSampler({.further = {.typical_p = 0}}), ConfigError);
}

TEST(TokenSampler, OrdersOfOtherPrograms) {
  const std::vector<float> logits{std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const auto kept = [&](SamplingOptions o) { return draw(o, logits).size(); };
  // min-p 0.6 leaves 0.4 and 0.3; of these, 57 % are the first.
  EXPECT_EQ(kept({.top_p = 0.5, .min_p = 0.6}), 2u);
  EXPECT_EQ(kept({.top_p = 0.5, .min_p = 0.6, .order = SamplerOrder::kVllm}), 1u);
  // At temperature 10 the tokens are nearly equal: 0.4 of the mass are two of them, at temperature 1 one.
  EXPECT_EQ(kept({.temperature = 10, .top_p = 0.4}), 2u);
  EXPECT_EQ(kept({.temperature = 10, .top_p = 0.39, .order = SamplerOrder::kLlamaCpp}), 1u);
  EXPECT_EQ(kept({.temperature = 10, .min_p = 0.6}), 4u);
  EXPECT_EQ(kept({.temperature = 10, .min_p = 0.6, .order = SamplerOrder::kLlamaCpp}), 2u);
  // What is left is drawn at the temperature.
  const auto counts =
      draw({.temperature = 0.5, .top_k = 2, .order = SamplerOrder::kLlamaCpp}, logits, {}, 20000);
  EXPECT_NEAR(counts.at(0) / 20000.0, 16.0 / 25, 0.01);

  // Penalties: of the answer alone, or of the last 64 tokens.
  const std::vector<std::int32_t> prompt(3, 0);
  const std::vector<float> near{1.0f, 0.9f};
  EXPECT_EQ(TokenSampler({.greedy = true, .frequency_penalty = 0.1}).next(near, prompt), 0);
  EXPECT_EQ(TokenSampler({.greedy = true, .frequency_penalty = 0.1, .order = SamplerOrder::kLlamaCpp})
                .next(near, prompt),
            1);
  std::vector<std::int32_t> long_ago(65, 1);
  long_ago[0] = 0;
  EXPECT_EQ(TokenSampler({.greedy = true, .repetition_penalty = 1.2})
                .next(std::vector<float>{1.0f, 0.5f, 0.9f}, long_ago),
            2);
  EXPECT_EQ(TokenSampler({.greedy = true, .repetition_penalty = 1.2, .order = SamplerOrder::kLlamaCpp})
                .next(std::vector<float>{1.0f, 0.5f, 0.9f}, long_ago),
            0);
  EXPECT_EQ(
      TokenSampler(
          {.greedy = true, .repetition_penalty = 1.2, .order = SamplerOrder::kLlamaCpp, .penalty_window = 65})
          .next(std::vector<float>{1.0f, 0.5f, 0.9f}, long_ago),
      2);
  EXPECT_EQ(sampler_order_of("llama.cpp"), SamplerOrder::kLlamaCpp);
  EXPECT_THROW(sampler_order_of("ggml"), ConfigError);
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

TEST(TokenSampler, WhatIsForbiddenNeverComes) {
  const std::vector<float> logits{5, 4, 3, 2};
  EXPECT_EQ(TokenSampler({.greedy = true, .suppressed = {0, 99}}).next(logits, {}), 1);
  TokenSampler first({.greedy = true, .suppressed_first = {0}});
  EXPECT_EQ(first.next(logits, {}), 1);
  EXPECT_EQ(first.next(logits, {}), 0);
  TokenSampler words({.greedy = true, .bad_words = {{3, 0}, {1}}});
  EXPECT_EQ(words.next(logits, std::vector<std::int32_t>{3, 2}), 0);
  EXPECT_EQ(words.next(logits, std::vector<std::int32_t>{2, 3}), 2);
  EXPECT_FALSE(draw({.suppressed = {2}}, logits).contains(2));
}

}  // namespace
}  // namespace stoa::infer
