#include "token/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "formats/gguf/gguf_writer.h"

namespace stoa::token {
namespace {

// The time that the tables of a large tokenizer take grows with their length, not with its square.
TEST(GgufTokenizer, KeysOfALargeVocabularyAreMadeInSeconds) {
  constexpr std::int64_t kTokens = 60'000;
  std::string vocab;
  for (std::int64_t id = 0; id < kTokens; ++id)
    vocab += fmt::format("{}\"word{:06}\":{}", id == 0 ? "" : ",", id, id);
  const TestFolder folder;
  write_text(folder / "tokenizer.json",
             fmt::format(R"({{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":)"
                         R"({{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}},)"
                         R"("model":{{"type":"BPE","vocab":{{{}}},"merges":[]}}}})",
                         vocab));
  const Tokenizer tokenizer = Tokenizer::load(folder / "tokenizer.json");
  const std::clock_t begun = std::clock();  // of this process: the machine may be busy
  const gguf::Keys keys = gguf_keys(tokenizer, kTokens);
  EXPECT_LT(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC, 5);
  const auto tokens = std::find_if(keys.begin(), keys.end(),
                                   [](const auto& key) { return key.first == "tokenizer.ggml.tokens"; });
  ASSERT_NE(tokens, keys.end());
  EXPECT_EQ(*tokens->second.text_at(kTokens - 1), "word059999");
}

TEST(GgufTokenizer, NamesItsTemplates) {
  TokenizerSpec spec = Tokenizer::load(stoa::test::source_dir() / "tests/fixtures/token/gpt2").spec();
  spec.chat_template = "D";
  spec.more_templates = {{"rag", "R"}, {"tool_use", "T"}};
  const Tokenizer tokenizer(std::move(spec));
  const TestFolder folder;
  gguf::Writer(folder / "t.gguf", gguf_keys(tokenizer, tokenizer.vocab_size()), {}).commit();
  const Tokenizer read = Tokenizer::load(folder / "t.gguf");
  EXPECT_EQ(read.chat_template(), "D");
  EXPECT_EQ(read.spec().more_templates, tokenizer.spec().more_templates);
}

}  // namespace
}  // namespace stoa::token
