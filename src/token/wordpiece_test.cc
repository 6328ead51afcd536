#include "token/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/test_folder.h"
#include "token/encoder.h"
#include "token/stream_decoder.h"
#include "token/test_support.h"
#include "token/trainer.h"
#include "token/unicode.h"

namespace stoa::token {
namespace {

using test::fixture;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

void expect_wordpiece_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  Encoder encoder(tokenizer);
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    const auto expected = c["ids"].get<Ids>();
    const auto special = c.value("special", expected);
    const auto decoded = c.value("decoded", text);
    const auto encoded = [&](EncodeOptions options) {
      Ids ids;
      encoder.encode(text, options, ids);
      return ids;
    };
    for (int pass = 0; pass < 2; ++pass) {  // the second time from the cache
      ASSERT_EQ(encoded({}), expected) << c["text"];
      ASSERT_EQ(encoded({.plain = true}), c.value("plain", expected)) << "plain: " << c["text"];
      ASSERT_EQ(encoded({.add_special = true}), special) << "special: " << c["text"];
    }
    ASSERT_EQ(tokenizer.decode(special), decoded) << c["text"];
    ASSERT_EQ(tokenizer.decode(special, {.skip_special = true}), c.value("skipped", decoded)) << c["text"];
  }
}

class WordPieceFixture : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, WordPieceFixture, ::testing::Values("bert", "bert-cased"));

TEST_P(WordPieceFixture, SameIdsAndTextsAsHuggingFace) {
  const auto cases = test::read_json(fixture("wordpiece.json"))[GetParam()]["cases"];
  ASSERT_GT(cases.size(), 80U);
  expect_wordpiece_cases(Tokenizer::load(fixture(GetParam())), cases);
}

TEST_P(WordPieceFixture, EveryFileGivesTheSameTokenizer) {
  const auto tokenizer = Tokenizer::load(fixture(GetParam()));
  const auto cases = test::read_json(fixture("wordpiece.json"))[GetParam()]["cases"];
  const TestFolder directory;
  tokenizer.save(directory.path());
  const auto again = Tokenizer::load(directory.path());
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  expect_wordpiece_cases(again, cases);
  fs::remove(directory.path() / "tokenizer.json");  // vocab.txt and tokenizer_config.json say it all
  const auto from_vocabulary = Tokenizer::load(directory.path());
  EXPECT_EQ(from_vocabulary.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(from_vocabulary.mask_id(), tokenizer.token_to_id("[MASK]"));
  EXPECT_EQ(from_vocabulary.cls_id(), 2);
  EXPECT_EQ(from_vocabulary.sep_id(), 3);
  expect_wordpiece_cases(from_vocabulary, cases);
}

TEST_P(WordPieceFixture, WordsOfAllOfUnicodeAreThoseOfHuggingFace) {
  const auto tokenizer = Tokenizer::load(fixture(GetParam()));
  const WordPiece::Ids none;
  const WordPiece words(tokenizer.spec().wordpiece, none, 0);
  std::uint64_t hash = 0xCBF29CE484222325u;
  std::string text, character, normalized;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    character.clear();
    append_utf8(c, character);
    text = "a" + character + "1" + character + " " + character + "B";
    words.normalize(text, normalized);
    for (const char *p = normalized.data(), *end = p + normalized.size(); p < end;) {
      std::size_t skip = 0;
      const std::size_t n = words.next_word(p, end, skip);
      p += skip;
      if (n == 0) break;
      for (const char byte : std::string(p, n) + "|")
        hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3u;
      p += n;
    }
  }
  EXPECT_EQ(fmt::format("{:016x}", hash),
            test::read_json(fixture("wordpiece.json"))[GetParam()]["checksum"].get<std::string>());
}

TEST(WordPiece, AnyBytesGiveTokens) {
  const auto tokenizer = Tokenizer::load(fixture("bert"));
  test::Random random(5);
  for (int i = 0; i < 300; ++i)
    for (const TokenId id : tokenizer.encode(random.bytes(random.below(80))))
      ASSERT_TRUE(id >= 0 && id < tokenizer.vocab_size());
}

TEST(WordPiece, SaysWhatContinuesAWord) {
  const auto tokenizer = Tokenizer::load(fixture("bert"));
  EXPECT_TRUE(tokenizer.continues_word(*tokenizer.token_to_id("##e")));
  EXPECT_FALSE(tokenizer.continues_word(*tokenizer.token_to_id("e")));
}

TEST(WordPiece, FilesThatCannotWorkAreRefused) {
  EXPECT_THROW(parse_vocab_txt("[PAD]\n[CLS]\na\n"), DataError);  // no [UNK]
  EXPECT_THROW(parse_vocab_txt("[UNK]\na\nb\na\n"), DataError);   // twice
  try {
    parse_vocab_txt("[UNK]\na\ncaf\xE9\n");
    FAIL() << "Latin-1 was taken";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("line 3"));
    EXPECT_THAT(e.what(), HasSubstr("UTF-8"));
  }
  const std::string good = read_text(fixture("bert/tokenizer.json"));
  for (const auto& [from, to] :
       {std::pair{"\"BertPreTokenizer\"", "\"Guess\""}, std::pair{"\"BertNormalizer\"", "\"Lowercase\""},
        std::pair{"\"max_input_chars_per_word\"", "\"limit\""}}) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    ASSERT_NE(at, bad.npos) << from;
    bad.replace(at, std::string_view(from).size(), to);
    EXPECT_THROW(Tokenizer::from_json(bad), DataError) << to;
  }
}

TextSource once(const std::string& text) {
  return [text, done = false](std::string& out) mutable {
    if (done) return false;
    out = text;
    return done = true;
  };
}

TrainOptions with_special(std::int64_t size) {
  TrainOptions options;
  options.vocab_size = size;
  options.special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  return options;
}

// What tokenizers 0.23.3 makes of this text with a vocabulary of 20; no two pairs are equally frequent.
TEST(TrainWordPiece, PiecesAreThoseOfHuggingFace) {
  WorkerPool pool(2);
  std::string text;
  const auto add = [&](const char* word, int times) {
    for (int i = 0; i < times; ++i) text += std::string(word) + " ";
  };
  add("Hug", 10), add("pug", 5), add("pun", 12), add("bun", 4), add("hugs", 6);
  const auto spec = train_wordpiece(once(text), with_special(20), pool);
  const std::set<std::string> pieces(spec.vocabulary.begin(), spec.vocabulary.end());
  EXPECT_EQ(pieces, (std::set<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b",  "h",
                                           "p",     "##g",   "##n",   "##s",   "##u",    "g",  "n",
                                           "s",     "u",     "##ug",  "##un",  "hug",    "pun"}));
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("Hugs, pun")), "hugs [UNK] pun");
}

TEST(TrainWordPiece, RefusesWhatCannotWork) {
  WorkerPool pool(1);
  TrainOptions options = with_special(100);
  options.special_tokens = {"[UNK]", "[CLS]", "[SEP]", "[PAD]"};
  EXPECT_THROW(train_wordpiece(once("text"), options, pool), ConfigError);  // no [MASK]
  EXPECT_THROW(train_wordpiece(once("text"), with_special(6), pool), ConfigError);
  EXPECT_THROW(train_wordpiece(once(" \n"), with_special(60), pool), DataError);
}

}  // namespace
}  // namespace stoa::token
