#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stoa::eval {
namespace {

TEST(Windows, EveryPredictionCountsOnceWithTheContextPromised) {
  for (std::int64_t inputs = 0; inputs < 40; ++inputs)
    for (std::int64_t window = 1; window < 12; ++window)
      for (std::int64_t stride = 1; stride <= window; ++stride) {
        std::int64_t done = 0;
        for (const Window& w : plan_windows(inputs, window, stride)) {
          EXPECT_EQ(w.scored, done);
          EXPECT_LE(w.end - w.begin, window);
          EXPECT_LT(w.scored, w.end);
          EXPECT_GE(w.scored - w.begin, w.begin == 0 ? 0 : window - stride);
          done = w.end;
        }
        EXPECT_EQ(done, inputs);
      }
  EXPECT_EQ(plan_windows(10, 4, 2), (std::vector<Window>{{0, 0, 4}, {2, 4, 6}, {4, 6, 8}, {6, 8, 10}}));
}

TEST(Words, AreCutWherePythonCuts) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words(" \n\t "), 0);
  EXPECT_EQ(count_words("To be, or"), 3);
  EXPECT_EQ(count_words("  a\xc2\xa0"
                        "b\xe3\x80\x80"
                        "c\xe2\x80\xaf"
                        "d\xe1\x9a\x80"
                        "e\xe2\x81\x9f"
                        "f\xe2\x80\xa8g  "),
            7);
  EXPECT_EQ(count_words("a\xe2\x80\x8b"
                        "b"),
            1);                           // a zero-width space is none
  EXPECT_EQ(count_words("\xe2\x80"), 1);  // cut in the middle of a character
  EXPECT_EQ(count_words(std::string_view("a\0b", 3)), 1);
}

// A model whose loss tells what it saw: 1000 x label + tokens of context, which must be the text's.
PerplexityMeter::Model checking_model(std::vector<std::vector<std::int64_t>>& passes) {
  return [&passes](auto tokens, auto labels, auto lengths, auto losses) {
    passes.emplace_back(lengths.begin(), lengths.end());
    std::size_t at = 0;
    for (const std::int64_t length : lengths)
      for (std::int64_t i = 0; i < length; ++i, ++at) {
        if (i > 0) {
          EXPECT_EQ(tokens[at], labels[at - 1]);
        }
        losses[at] = static_cast<float>(1000 * labels[at] + i + 1);
      }
    EXPECT_EQ(at, tokens.size());
  };
}

TEST(Perplexity, CountsEveryTokenOnceAndPacksWindows) {
  std::vector<std::vector<std::int64_t>> passes;
  PerplexityMeter meter({.window = 4, .stride = 2, .pass_tokens = 10, .prefix = 0}, checking_model(passes));
  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6, 7}, few{8};
  meter.add("one two three", ids);
  meter.add("four", few);
  const auto& r = meter.finish();
  EXPECT_EQ(r.tokens, 8);
  EXPECT_EQ(r.documents, 2);
  EXPECT_EQ(r.words, 4);
  EXPECT_EQ(r.bytes, 17);
  // Inputs 0 … 6 in windows [0,4) [2,6) [4,7), then the second text's [0,1): contexts 1 2 3 4, 3 4, 3, 1.
  EXPECT_DOUBLE_EQ(r.loss_sum, 1000.0 * 36 + (1 + 2 + 3 + 4) + (3 + 4) + 3 + 1);
  EXPECT_EQ(passes, (std::vector<std::vector<std::int64_t>>{{4, 4}, {3, 1}}));
  EXPECT_EQ(r.read_tokens, 12);
  EXPECT_NEAR(r.bits_per_byte(), r.loss_sum / 17 / std::log(2.0), 1e-9);
  EXPECT_NEAR(r.loss(), r.loss_sum / 8, 1e-12);
}

TEST(Perplexity, WithoutPrefixTheFirstTokenOfATextDoesNotCount) {
  std::vector<std::vector<std::int64_t>> passes;
  PerplexityMeter meter({.window = 4, .stride = 4, .pass_tokens = 4, .prefix = {}}, checking_model(passes));
  const std::vector<std::int32_t> ids{1, 2, 3}, one{4};
  meter.add("a b", ids);
  meter.add("c", one);
  EXPECT_EQ(meter.finish().tokens, 2);
}

TEST(MaskedPerplexity, PredictsEveryTokenOnceFromItsWindow) {
  std::vector<std::vector<std::int32_t>> windows, chosen;
  MaskedPerplexityMeter meter({.window = 4, .stride = 2, .begin = 101, .end = 102},
                              [&](auto tokens, auto rows, auto losses) {
                                windows.emplace_back(tokens.begin(), tokens.end());
                                auto& labels = chosen.emplace_back();
                                for (std::size_t i = 0; i < rows.size(); ++i) {
                                  labels.push_back(tokens[static_cast<std::size_t>(rows[i])]);
                                  losses[i] = static_cast<float>(labels.back());
                                }
                              });
  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6, 7};
  meter.add("one two", ids);
  EXPECT_EQ(windows, (std::vector<std::vector<std::int32_t>>{
                         {101, 1, 2, 3, 4, 102}, {101, 3, 4, 5, 6, 102}, {101, 5, 6, 7, 102}}));
  EXPECT_EQ(chosen, (std::vector<std::vector<std::int32_t>>{{1, 2, 3, 4}, {5, 6}, {7}}));
  EXPECT_EQ(meter.result().tokens, 7);
  EXPECT_EQ(meter.result().words, 2);
  EXPECT_EQ(meter.result().loss_sum, 28);
  EXPECT_EQ(meter.result().read_tokens, 4 * 6 + 2 * 6 + 5);
}

TEST(MaskedPerplexity, RefusesWhatCannotBe) {
  const auto nothing = [](auto, auto, auto) {};
  EXPECT_THROW(MaskedPerplexityMeter({.window = 0, .stride = 1, .begin = {}, .end = {}}, nothing),
               ConfigError);
  EXPECT_THROW(MaskedPerplexityMeter({.window = 4, .stride = 5, .begin = {}, .end = {}}, nothing),
               ConfigError);
  MaskedPerplexityMeter empty({.window = 4, .stride = 4, .begin = 1, .end = 2}, nothing);
  empty.add("", {});
  EXPECT_THROW(empty.result().require_tokens(), DataError);
}

TEST(Perplexity, RefusesWhatCannotBe) {
  std::vector<std::vector<std::int64_t>> passes;
  EXPECT_THROW(
      PerplexityMeter({.window = 4, .stride = 5, .pass_tokens = 8, .prefix = {}}, checking_model(passes)),
      ConfigError);
  EXPECT_THROW(
      PerplexityMeter({.window = 4, .stride = 0, .pass_tokens = 8, .prefix = {}}, checking_model(passes)),
      ConfigError);
  PerplexityMeter empty({.window = 4, .stride = 4, .pass_tokens = 8, .prefix = {}}, checking_model(passes));
  EXPECT_THROW(empty.finish(), DataError);
  PerplexityMeter broken({.window = 4, .stride = 4, .pass_tokens = 8, .prefix = 0},
                         [](auto, auto, auto, auto losses) { losses[0] = NAN; });
  const std::vector<std::int32_t> ids{1};
  broken.add("a", ids);
  EXPECT_THROW(broken.finish(), NumericsError);
}

}  // namespace
}  // namespace stoa::eval
