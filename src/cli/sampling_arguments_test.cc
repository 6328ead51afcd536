#include "cli/sampling_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::cli {
namespace {

using ::testing::ElementsAre;
using Use = SamplingArguments::Use;

// What a command draws by, with these words on the command line and this generation_config.json ("": none).
SamplingArguments::Merged merged(Use use, std::vector<std::string> words, const std::string& file,
                                 bool draws = true) {
  const TestFolder directory;
  if (!file.empty()) write_text(directory.path() / "generation_config.json", file);
  CLI::App app;
  SamplingArguments arguments;
  arguments.add_to(app, use);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  model::huggingface::SpecialTokens config;
  config.eos = {7};
  return arguments.merged(directory.path(), config, draws);
}

constexpr const char* kLlama =
    R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [3, 4], "max_new_tokens": 33})";

TEST(SamplingArguments, TakesTheFileWhereNoFlagIsGiven) {
  const auto all = merged(Use::kText, {}, kLlama);
  EXPECT_EQ(all.options.sampling.temperature, 0.6);
  EXPECT_EQ(all.options.sampling.top_p, 0.9);
  EXPECT_EQ(all.options.max_tokens, 33);
  EXPECT_THAT(all.options.end_tokens, ElementsAre(3, 4));
  EXPECT_EQ(all.taken.dump(), R"({"eos_token_id":[3,4],"max_new_tokens":33,"temperature":0.6,"top_p":0.9})");
  const auto some = merged(Use::kText, {"--top-p", "0.5", "--max-tokens", "9"}, kLlama);
  EXPECT_EQ(some.options.sampling.temperature, 0.6);
  EXPECT_EQ(some.options.sampling.top_p, 0.5);
  EXPECT_EQ(some.options.max_tokens, 9);
  const auto none = merged(Use::kText, {"--no-generation-config"}, kLlama);
  EXPECT_EQ(none.options.sampling.temperature, 1);
  EXPECT_THAT(none.options.end_tokens, ElementsAre(7)) << "of config.json";
  EXPECT_TRUE(none.taken.empty());
  const auto beams = merged(Use::kText, {}, kLlama, false);
  EXPECT_EQ(beams.options.sampling.temperature, 1);
  EXPECT_THAT(beams.options.end_tokens, ElementsAre(3, 4));
}

TEST(SamplingArguments, TextIsDrawnByTheFileOnlyWhereItSamples) {
  const auto quiet = merged(Use::kText, {}, R"({"temperature": 0.6, "repetition_penalty": 1.1})");
  EXPECT_EQ(quiet.options.sampling.temperature, 1);
  EXPECT_EQ(quiet.options.sampling.repetition_penalty, 1.1);
  EXPECT_FALSE(merged(Use::kText, {}, R"({"do_sample": false})").options.sampling.greedy);
}

TEST(SamplingArguments, ChatHasDefaultsOfItsOwn) {
  const auto without = merged(Use::kChat, {}, "");
  EXPECT_EQ(without.options.sampling.temperature, 0.8);
  EXPECT_EQ(without.options.sampling.top_p, 0.95);
  const auto tokens = merged(Use::kChat, {}, R"({"eos_token_id": 3})");
  EXPECT_EQ(tokens.options.sampling.temperature, 0.8) << "the file does not say how to draw";
  const auto own = merged(Use::kChat, {}, R"({"temperature": 0.7, "top_k": 20})");
  EXPECT_EQ(own.options.sampling.temperature, 0.7);
  EXPECT_EQ(own.options.sampling.top_k, 20);
  EXPECT_EQ(own.options.sampling.top_p, 1) << "of a file that says how to draw";
  EXPECT_TRUE(merged(Use::kChat, {}, R"({"do_sample": false})").options.sampling.greedy);
  EXPECT_FALSE(merged(Use::kChat, {"--temperature", "1"}, R"({"do_sample": false})").options.sampling.greedy);
  EXPECT_TRUE(merged(Use::kChat, {"--greedy"}, kLlama).options.sampling.greedy);
}

TEST(SamplingArguments, RefusesAFileThatCannotBe) {
  EXPECT_THAT(
      [] { (void)merged(Use::kText, {}, R"({"do_sample": true, "top_p": 2})"); },
      testing::ThrowsMessage<ConfigError>(::testing::AllOf(::testing::HasSubstr("top-p must be above 0"),
                                                           ::testing::HasSubstr("--no-generation-config"))));
  EXPECT_THROW((void)merged(Use::kText, {}, "nothing"), ConfigError);
}

TEST(SamplingArguments, SaysWhatItDoesNotFollow) {
  EXPECT_THAT(merged(Use::kText, {}, R"({"no_repeat_ngram_size": 2})").not_followed,
              ElementsAre("no_repeat_ngram_size 2"));
}

}  // namespace
}  // namespace stoa::cli
