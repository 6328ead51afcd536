#include "token/trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "token/test_support.h"

namespace stoa::token {
namespace {

TextSource lines_of(const std::string& text) {
  return [at = std::size_t{0}, text](std::string& line) mutable {
    if (at >= text.size()) return false;
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    line = text.substr(at, end - at);
    at = end;
    return true;
  };
}

class TrainBpe : public ::testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(PatternsAndWorkers, TrainBpe,
                         ::testing::Combine(::testing::Values("gpt2", "llama3", "qwen2", "bloom"),
                                            ::testing::Values(1, 3)));

TEST_P(TrainBpe, VocabularyAndMergesAreThoseOfHuggingFace) {
  const auto& [pattern, workers] = GetParam();
  const auto expected =
      parse_tokenizer_json(read_text(test::fixture(std::string(pattern) + "/tokenizer.json")));
  WorkerPool pool(workers);
  TrainOptions options;
  options.vocab_size = 600;
  options.split = split_pattern_named(pattern).value();
  TrainSummary summary;
  const std::string corpus = read_text(test::fixture("corpus.txt"));
  const auto trained = train_bpe(lines_of(corpus), options, pool, {}, &summary);
  EXPECT_EQ(trained.vocabulary, expected.vocabulary);
  ASSERT_EQ(trained.merges.size(), expected.merges.size());
  for (std::size_t i = 0; i < trained.merges.size(); ++i) {
    EXPECT_EQ(trained.merges[i].left, expected.merges[i].left) << i;
    EXPECT_EQ(trained.merges[i].right, expected.merges[i].right) << i;
    EXPECT_EQ(trained.merges[i].result, expected.merges[i].result) << i;
  }
  EXPECT_EQ(summary.bytes, static_cast<std::int64_t>(corpus.size()));
}

TEST(Trainer, StopsWhenNoPairIsLeft) {
  WorkerPool pool(1);
  const auto spec = train_bpe(lines_of("abab abab"), {.vocab_size = 1000}, pool);
  EXPECT_LT(spec.vocabulary.size(), 270U);
  const auto rare = train_bpe(lines_of("abab abab cd"), {.vocab_size = 1000, .min_frequency = 2}, pool);
  const Tokenizer tokenizer(rare);
  EXPECT_TRUE(tokenizer.token_to_id("abab").has_value());
  EXPECT_FALSE(tokenizer.token_to_id("\u0120c").has_value());
}

TEST(Trainer, RefusesWhatCannotWork) {
  WorkerPool pool(1);
  EXPECT_THROW(train_bpe(lines_of(""), {.vocab_size = 300}, pool), DataError);
  EXPECT_THROW(train_bpe(lines_of("text"), {.vocab_size = 256}, pool), ConfigError);
  EXPECT_THROW(train_bpe(lines_of("text"), {.vocab_size = 300, .special_tokens = {"<a>", "<a>"}}, pool),
               ConfigError);
  EXPECT_THROW(train_bpe(lines_of("text"), {.vocab_size = 300, .special_tokens = {""}}, pool), ConfigError);
}

}  // namespace
}  // namespace stoa::token
