#include "eval/requests/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::eval {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::ThrowsMessage;

// Words a, b and c, and `special` tokens; `config`: tokenizer_config.json.
token::Tokenizer word_tokenizer(const std::string& special, const std::string& config) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", R"({"added_tokens": [)" + special +
                                            R"(], "pre_tokenizer": {"type": "Whitespace"},
          "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "c": 3}}})");
  write_text(folder / "tokenizer_config.json", config);
  return token::Tokenizer::load(folder.path());
}

TEST(RequestEncoder, ATextWithoutContextNeedsATokenThatBeginsIt) {
  const token::Tokenizer tokenizer = word_tokenizer("", "{}");
  RequestEncoder encoder(tokenizer, std::nullopt);
  EXPECT_THAT(encoder.pair("a", " b").continuation, ElementsAre(2));
  EXPECT_THAT([&] { encoder.pair("", "b"); },
              ThrowsMessage<DataError>(HasSubstr("neither a beginning-of-text nor an end-of-text token")));
  EXPECT_THAT([&] { RequestEncoder(tokenizer, true); },
              ThrowsMessage<ConfigError>(HasSubstr("the tokenizer has no beginning-of-text token")));
}

TEST(RequestEncoder, TheFirstTokenOfATextIsItsContext) {
  const token::Tokenizer tokenizer =
      word_tokenizer(R"({"id": 4, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                         "rstrip": false, "normalized": false})",
                     R"({"bos_token": "<s>"})");
  ASSERT_EQ(tokenizer.bos_id(), 4);
  RequestEncoder encoder(tokenizer, true);
  const EncodedPair pair = encoder.pair("", "b c");
  EXPECT_THAT(pair.context, ElementsAre(4));
  EXPECT_THAT(pair.continuation, ElementsAre(2, 3));
  EXPECT_THAT(encoder.pair("<s>", "b").context, ElementsAre(4));
  EXPECT_THAT(encoder.text("a"), ElementsAre(4, 1));
}

}  // namespace
}  // namespace stoa::eval
