#include "token/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "token/test_support.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

using test::fixture;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

void expect_sentencepiece_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text), ids) << c["text"];
    if (!c.contains("special")) continue;
    const auto special = c["special"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, {.add_special = true}), special) << c["text"];
    EXPECT_EQ(tokenizer.decode(special), c["decoded"].get<std::string>()) << c["text"];
    EXPECT_EQ(tokenizer.decode(special, {.skip_special = true}), c["skipped"].get<std::string>())
        << c["text"];
  }
}

TEST(SentencePiece, SameIdsAndTextsAsHuggingFacesT5) {
  const auto samples = test::read_json(fixture("sentencepiece.json"));
  const auto tokenizer = Tokenizer::load(fixture("t5"));
  expect_sentencepiece_cases(tokenizer, samples["t5"]);
  const Ids sentinels = tokenizer.sentinel_ids();
  ASSERT_EQ(sentinels.size(), 10U);
  EXPECT_EQ(sentinels[0], samples["t5_first_sentinel"].get<TokenId>());
  EXPECT_EQ(sentinels[9], sentinels[0] - 9);
  EXPECT_EQ(tokenizer.vocab_size(), sentinels[0] + 1);
  EXPECT_EQ(tokenizer.eos_id(), 1);
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_FALSE(tokenizer.bos_id());
}

TEST(SentencePiece, BpeWithBytes) {
  const auto tokenizer = Tokenizer::load(fixture("llama-spm"));
  expect_sentencepiece_cases(tokenizer, test::read_json(fixture("sentencepiece.json"))["llama-spm"]);
  EXPECT_EQ(tokenizer.encode("a", {.add_special = true}).front(), tokenizer.bos_id());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("🙂 \xEF\xBC\xA6 e\u0301")), "🙂 \xEF\xBC\xA6 e\u0301");
}

TEST(SentencePiece, TokensOfLegacyFilesAreFound) {
  const TestFolder directory;
  const auto plain = Tokenizer::load(fixture("llama-spm") / "tokenizer.model");
  write_text(directory.path() / "tokenizer.model", read_text(fixture("llama-spm") / "tokenizer.model"));
  const auto size = static_cast<TokenId>(plain.vocab_size());
  write_text(directory.path() / "added_tokens.json", nlohmann::json{{"<|im_end|>", size}}.dump());
  const auto tokenizer = Tokenizer::load(directory.path());
  EXPECT_EQ(tokenizer.vocab_size(), plain.vocab_size() + 1);
  EXPECT_EQ(tokenizer.encode("a<|im_end|>").back(), size);
}

TEST(SentencePiece, ClassesThatDoMoreThanTheModelAreRefused) {
  const TestFolder directory;
  write_text(directory.path() / "spiece.model", read_text(fixture("llama-spm") / "tokenizer.model"));
  write_text(directory.path() / "tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer"})");
  try {
    Tokenizer::load(directory.path());
    FAIL() << "accepted";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("tokenizer_class is AlbertTokenizer"));
  }
  // The complete file is read where there is one.
  write_text(directory.path() / "tokenizer.json", read_text(fixture("gpt2/tokenizer.json")));
  EXPECT_EQ(Tokenizer::load(directory.path()).vocab_size(), Tokenizer::load(fixture("gpt2")).vocab_size());
}

// AI21's j2: no blank is put in front of a text, so none is left out behind.
TEST(SentencePiece, BlanksAtTheFrontStayWhereTheModelAddsNone) {
  const std::string without = "\x1A\x04\x18" + std::string(1, '\0') + "\x20" + std::string(1, '\0');
  const TestFolder directory;
  write_text(directory.path() / "tokenizer.model",
             read_text(fixture("llama-spm") / "tokenizer.model") + without);
  const auto tokenizer = Tokenizer::load(directory.path());
  for (const char* text : {" a", "a", "  a b"}) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  const auto usual = Tokenizer::load(fixture("llama-spm") / "tokenizer.model");
  EXPECT_EQ(usual.decode(usual.encode("a")), "a");
  // Mistral's vocabulary begins with a piece of two blanks.
  const std::string two_blanks =
      std::string("\x0A\x0D\x0A\x06") + "\u2581\u2581" + "\x15" + std::string(4, '\0');
  write_text(directory.path() / "tokenizer.model",
             two_blanks + read_text(fixture("llama-spm") / "tokenizer.model"));
  const auto blanks = Tokenizer::load(directory.path());
  EXPECT_EQ(blanks.id_to_token(0), "\u2581\u2581");
  EXPECT_EQ(blanks.decode(blanks.encode("a")), "a");
}

TEST(SentencePiece, SavedFilesGiveTheSameTokenizer) {
  for (const char* name : {"t5", "llama-spm"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    const TestFolder directory;
    tokenizer.save(directory.path());
    const auto again = Tokenizer::load(directory.path());
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(again.sentinel_ids(), tokenizer.sentinel_ids());
    EXPECT_EQ(again.encode("The harbour", {.add_special = true}),
              tokenizer.encode("The harbour", {.add_special = true}));
    EXPECT_NE(tokenizer.fingerprint(), Tokenizer::load(fixture("gpt2")).fingerprint());
  }
  EXPECT_NE(Tokenizer::load(fixture("t5")).fingerprint(),
            Tokenizer::load(fixture("llama-spm")).fingerprint());
}

TextSource texts_of(std::vector<std::string> texts) {
  return [texts = std::move(texts), at = std::size_t{0}](std::string& text) mutable {
    if (at == texts.size()) return false;
    text = texts[at++];
    return true;
  };
}

std::vector<std::string> corpus() {
  std::vector<std::string> lines{""};
  for (const char c : read_text(fixture("corpus.txt"))) {
    lines.back().push_back(c);
    if (c == '\n') lines.emplace_back();
  }
  return lines;
}

TEST(SentencePiece, Trains) {
  for (const auto kind : {SentencePieceKind::kUnigram, SentencePieceKind::kBpe}) {
    const std::string model = train_sentencepiece(texts_of(corpus()), {.kind = kind, .vocab_size = 400});
    EXPECT_EQ(model, train_sentencepiece(texts_of(corpus()), {.kind = kind, .vocab_size = 400}));
    TokenizerSpec spec = sentencepiece_spec(std::make_shared<const SentencePiece>(model));
    add_sentinels(3, spec);
    const Tokenizer tokenizer(spec);
    EXPECT_EQ(tokenizer.vocab_size(), 403);
    EXPECT_EQ(tokenizer.sentinel_ids(), (Ids{402, 401, 400}));
    EXPECT_EQ(tokenizer.token_to_id("<pad>"), 0);
    EXPECT_EQ(tokenizer.token_to_id("</s>"), 1);
    EXPECT_EQ(tokenizer.token_to_id("<unk>"), 2);
    const std::string text = "The harbour was quiet again.";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

template <class E, class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

TEST(SentencePiece, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal<DataError>([] { SentencePiece("no model"); }), HasSubstr("not a SentencePiece model"));
  EXPECT_THAT(refusal<DataError>([] {
                train_sentencepiece(texts_of({"\n", "  "}), {});
              }),
              HasSubstr("no text to train on"));
  EXPECT_THAT(refusal<ConfigError>([] { train_sentencepiece(texts_of(corpus()), {.vocab_size = 100000}); }),
              HasSubstr("Please set it to a value <="));
}

}  // namespace
}  // namespace stoa::token
