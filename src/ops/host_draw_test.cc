#include "ops/host_draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/philox.h"

namespace stoa::ops {
namespace {

TEST(TokenWeight, IsTwoToTheMinusDistance) {
  for (std::uint32_t fraction = 0; fraction < 1U << kOctaveBits; fraction += 1021) {
    const double octaves = fraction / static_cast<double>(kOctave);
    EXPECT_NEAR(octave_weight(fraction) * std::exp2(octaves - 31), 1, 0x1p-28) << fraction;
  }
  EXPECT_EQ(octave_weight(0), 1U << 31);
}

// Also from one octave to the next.
TEST(TokenWeight, FallsWithTheDistance) {
  const int bits = weight_bits(50000);
  std::uint64_t last = std::uint64_t{1} << bits;
  EXPECT_EQ(token_weight(0, bits), last);
  for (std::uint32_t distance = 0; distance < 3U << kOctaveBits;
       distance += distance % 4096 == 0 ? 1 : 4093) {
    const std::uint64_t weight = token_weight(distance, bits);
    EXPECT_LE(weight, last) << distance;
    last = weight;
  }
  for (std::uint32_t octave = 1; octave < 40; ++octave) {
    const std::uint32_t begin = octave << kOctaveBits;
    EXPECT_LE(token_weight(begin, bits), token_weight(begin - 1, bits)) << octave;
  }
  EXPECT_EQ(token_weight(kNoToken, bits), 0U);
  EXPECT_EQ(token_weight(kNoToken - 1, bits), 0U);
}

TEST(TokenWeight, SumsOfAnyVocabularyFit) {
  for (const std::int64_t ids : {1, 2, 3, 49152, 262144, 2147483647}) {
    const int bits = weight_bits(ids);
    EXPECT_GE(bits, 31);
    EXPECT_LE(std::ldexp(static_cast<double>(ids), bits), 0x1p62);
  }
}

TEST(TokenWeight, PartsOfSums) {
  const std::uint64_t sum = 0x3fedcba987654321U;
  for (const std::uint32_t part : {1U, 0x80000000U, 0xffffffffU, 123456789U}) {
    const auto whole = static_cast<unsigned __int128>(sum) * part;
    EXPECT_EQ(part_of_sum(sum, part), static_cast<std::uint64_t>(whole >> 32));
    EXPECT_EQ(least_of_sum(sum, part), static_cast<std::uint64_t>((whole + 0xffffffffU) >> 32));
  }
}

// Chi-square of many draws: at 5 deviations above its mean something is wrong.
double chi_square(std::span<const float> logits, const DrawOptions& options,
                  const std::vector<double>& expected) {
  constexpr int kDraws = 20000;
  TokenDraw draw = token_draw(options);
  HostDraw host;
  const PhiloxKey key = philox_key(11, RandomPurpose::kTest, "draws");
  std::vector<double> counts(logits.size());
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    draw.word = philox_word(key, i);
    counts[static_cast<std::size_t>(host.draw(logits, draw))] += 1;
  }
  double all = 0, sum = 0, kept = 0;
  for (const double weight : expected) all += weight;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double mean = kDraws * expected[i] / all;
    if (mean == 0) {
      EXPECT_EQ(counts[i], 0) << i;
      continue;
    }
    sum += (counts[i] - mean) * (counts[i] - mean) / mean;
    kept += 1;
  }
  return (sum - (kept - 1)) / std::sqrt(2 * std::max(1.0, kept - 1));
}

TEST(HostDraw, FollowsTheSoftmaxAtEachTemperature) {
  std::vector<float> logits(64);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 2 * std::sin(static_cast<float>(i * i));
  for (const double temperature : {0.5, 1.0, 4.0}) {
    std::vector<double> weights;
    for (const float x : logits) weights.push_back(std::exp(static_cast<double>(x) / temperature));
    EXPECT_LT(chi_square(logits, {.temperature = temperature}, weights), 5) << temperature;
    // The twenty largest, of which those that weigh at least a tenth of the first.
    std::vector<double> sorted = weights;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (double& weight : weights)
      if (weight < sorted[19] || weight < 0.1 * sorted[0]) weight = 0;
    EXPECT_LT(chi_square(logits, {.temperature = temperature, .top_k = 20, .min_p = 0.1}, weights), 5);
  }
}

}  // namespace
}  // namespace stoa::ops
