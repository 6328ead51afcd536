#include "token/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "token/encoder.h"
#include "token/stream_decoder.h"
#include "token/test_support.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

using test::fixture;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

void expect_cases(const Tokenizer& tokenizer, const nlohmann::json& cases, const std::string& label) {
  Encoder encoder(tokenizer);
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    const auto expected = c["ids"].get<Ids>();
    const auto special = c.value("special", expected);
    const auto decoded = c.value("decoded", text);
    for (int pass = 0; pass < 2; ++pass) {  // the second time from the cache
      Ids ids;
      encoder.encode(text, {}, ids);
      ASSERT_EQ(ids, expected) << label << ": " << c["text"];
      ids.clear();
      encoder.encode(text, {.plain = true}, ids);
      ASSERT_EQ(ids, c.value("plain", expected)) << label << " plain: " << c["text"];
      ids.clear();
      encoder.encode(text, {.add_special = true}, ids);
      ASSERT_EQ(ids, special) << label << " special: " << c["text"];
    }
    ASSERT_EQ(tokenizer.encode(text), expected);
    // Hugging Face's decoded text is made UTF-8; ours are the bytes.
    ASSERT_EQ(replace_invalid_utf8(tokenizer.decode(special)), decoded) << label << ": " << c["text"];
    ASSERT_EQ(replace_invalid_utf8(tokenizer.decode(special, {.skip_special = true})),
              c.value("skipped", decoded));
  }
}

class HuggingFace : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Patterns, HuggingFace,
                         ::testing::Values("gpt2", "llama3", "qwen2", "bloom", "llama2"));

TEST_P(HuggingFace, SameIdsAndTexts) {
  const auto cases = test::read_json(fixture("samples.json"))[GetParam()];
  ASSERT_GT(cases.size(), 80U);
  expect_cases(Tokenizer::load(fixture(GetParam())), cases, GetParam());
}

TEST_P(HuggingFace, SavedFilesGiveTheSameTokenizer) {
  const auto tokenizer = Tokenizer::load(fixture(GetParam()));
  const TestFolder directory;
  tokenizer.save(directory.path());
  std::size_t written = 0;
  for (const auto& entry : fs::directory_iterator(directory.path())) written += entry.is_regular_file();
  EXPECT_EQ(tokenizer_texts(tokenizer).size(), written);
  for (const auto& file : tokenizer_texts(tokenizer))
    EXPECT_EQ(read_text(directory.path() / file.name), file.text);
  const auto again = Tokenizer::load(directory.path());
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(again.vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(again.eos_id(), tokenizer.eos_id());
  EXPECT_TRUE(std::ranges::equal(again.added_tokens(), tokenizer.added_tokens()));
  expect_cases(again, test::read_json(fixture("samples.json"))[GetParam()], GetParam());
}

TEST(Tokenizer, BothFileFormsHaveOneFingerprint) {
  const auto tokenizer = Tokenizer::load(fixture("gpt2"));
  const TestFolder directory;
  tokenizer.save(directory.path());
  fs::remove(directory.path() / "tokenizer.json");
  const auto from_pair = Tokenizer::load(directory.path());
  EXPECT_EQ(from_pair.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(Tokenizer::load(directory.path() / "vocab.json").fingerprint(), tokenizer.fingerprint());
  expect_cases(from_pair, test::read_json(fixture("samples.json"))["gpt2"], "pair");

  // GPT-2's own file names, without tokenizer_config.json.
  const TestFolder bare;
  fs::copy(directory.path() / "vocab.json", bare.path() / "x-encoder.json");
  fs::copy(directory.path() / "merges.txt", bare.path() / "x-vocab.bpe");
  EXPECT_EQ(Tokenizer::load(bare.path() / "x-encoder.json").fingerprint(), tokenizer.fingerprint());

  // Two files of any names in two folders.
  fs::copy(directory.path() / "vocab.json", bare.path() / "words");
  EXPECT_EQ(load_vocab_merges(bare.path() / "words", directory.path() / "merges.txt").fingerprint(),
            tokenizer.fingerprint());
  write_text(bare.path() / "fewer.txt", "#version: 0.2\n");
  EXPECT_NE(load_vocab_merges(bare.path() / "words", bare.path() / "fewer.txt").fingerprint(),
            tokenizer.fingerprint());
  EXPECT_THROW(load_vocab_merges(bare.path() / "words", bare.path() / "none.txt"), IoError);
}

TEST(Tokenizer, FingerprintSeesEveryPart) {
  const TokenizerSpec spec = parse_tokenizer_json(read_text(fixture("gpt2/tokenizer.json")));
  const std::string original = Tokenizer(spec).fingerprint();
  EXPECT_EQ(original.size(), 16U);
  TokenizerSpec changed = spec;
  changed.split = SplitPattern::kLlama3;
  EXPECT_NE(Tokenizer(changed).fingerprint(), original);
  changed = spec;
  std::swap(changed.merges[3], changed.merges[4]);
  EXPECT_NE(Tokenizer(changed).fingerprint(), original);
  changed = spec;
  std::swap(changed.vocabulary[300], changed.vocabulary[301]);
  EXPECT_NE(Tokenizer(changed).fingerprint(), original);
  changed = spec;
  changed.added[0].rstrip = true;
  EXPECT_NE(Tokenizer(changed).fingerprint(), original);
}

TEST(Tokenizer, AnyBytesComeBack) {
  test::Random random(11);
  for (const char* name : {"gpt2", "llama3", "llama2"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    Encoder encoder(tokenizer);
    for (int n = 0; n < 300; ++n) {
      std::string text = random.bytes(random.below(200));
      if (n % 3 == 0) text += "\xF0\x9F\x99 cut \xC3";
      Ids ids;
      encoder.encode(text, {}, ids);
      ASSERT_EQ(tokenizer.decode(ids), text);
      ASSERT_EQ(tokenizer.encode(text), ids);
    }
  }
}

TEST(Tokenizer, SpecialTokens) {
  const auto t = Tokenizer::load(fixture("llama3"));
  EXPECT_EQ(t.token_to_id("<|endoftext|>"), 0);
  EXPECT_EQ(t.eod_id(), 0);
  EXPECT_TRUE(t.is_special(0));
  EXPECT_FALSE(t.is_special(1));
  EXPECT_EQ(t.id_to_token(0), "<|endoftext|>");
  EXPECT_EQ(t.vocab_size(), 601);
  EXPECT_EQ(t.id_to_token(t.token_to_id("\u0120the").value()), "\u0120the");
  EXPECT_EQ(t.token_bytes(t.token_to_id("\u0120the").value()), " the");
  EXPECT_FALSE(t.token_to_id("no such token").has_value());
  EXPECT_THROW(t.decode(Ids{601}), DataError);
  EXPECT_THROW(t.decode(Ids{-1}), DataError);
}

TEST(Tokenizer, AddedIdsBeyondTheVocabularyLeaveWholeWordsFound) {
  // With ignore_merges a word that is a token is taken whole, whatever the merges would make of it.
  TokenizerSpec spec = Tokenizer::load(fixture("llama3")).spec();
  ASSERT_TRUE(spec.ignore_merges);
  spec.vocabulary.resize(700);  // past its added tokens
  std::vector<TokenId> expected;
  std::string text;
  for (const char* word : {"zqzq", "jxjxjxjxjxjxjxjxjxjxjxjxjxjxjx"}) {
    expected.push_back(static_cast<TokenId>(spec.vocabulary.size()));
    spec.vocabulary.push_back(std::string("\xC4\xA0") + word);  // "Ġ": a space before it
    text += std::string(" ") + word;
  }
  const auto beyond = static_cast<TokenId>(spec.vocabulary.size() + 5000);
  spec.added.push_back({.id = beyond, .content = "<|far|>"});
  expected.push_back(beyond);
  EXPECT_EQ(Tokenizer(spec).encode(text + "<|far|>"), expected);
}

TEST(Tokenizer, ConfigBesideIsRead) {
  const TestFolder d;
  fs::copy(fixture("gpt2/tokenizer.json"), d.path() / "tokenizer.json");
  write_text(
      d.path() / "tokenizer_config.json",
      R"({"bos_token":{"content":"<|endoftext|>","special":true},"eos_token":"<|endoftext|>","pad_token":null,
                 "add_bos_token":true,"chat_template":"{{ messages }}","model_max_length":1024})");
  const auto t = Tokenizer::load(d.path());
  EXPECT_EQ(t.bos_id(), 0);
  EXPECT_EQ(t.eos_id(), 0);
  EXPECT_FALSE(t.pad_id().has_value());
  EXPECT_EQ(t.chat_template(), "{{ messages }}");
  EXPECT_EQ(t.encode("", {.add_special = true}), Ids{0});
  const TestFolder copy;
  t.save(copy.path());
  EXPECT_EQ(Tokenizer::load(copy.path()).chat_template(), "{{ messages }}");
  EXPECT_EQ(Tokenizer::load(copy.path()).encode("", {.add_special = true}), Ids{0});
  write_text(d.path() / "chat_template.jinja", "caf\xE9");  // could not be saved
  EXPECT_THROW(Tokenizer::load(d.path()), DataError);
  fs::remove(d.path() / "chat_template.jinja");
  write_text(d.path() / "tokenizer_config.json", R"({"eos_token":"<nowhere>"})");
  EXPECT_THROW(Tokenizer::load(d.path()), DataError);
}

TEST(Tokenizer, TemplateForToolsAmongSeveral) {
  const TestFolder d;
  const Tokenizer gpt2 = Tokenizer::load(stoa::test::source_dir() / "tests/fixtures/token/gpt2");
  write_text(d / "tokenizer.json", tokenizer_json(gpt2.spec()));
  write_text(d / "tokenizer_config.json",
             R"({"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"},
                 {"name":"rag","template":"R"}]})");
  const auto check = [](const Tokenizer& t, const std::string& tools) {
    EXPECT_EQ(t.chat_template(), "D");
    EXPECT_EQ(t.tool_template(), tools);
  };
  const Tokenizer t = Tokenizer::load(d.path());
  check(t, "T");
  const TestFolder copy;
  t.save(copy.path());
  check(Tokenizer::load(copy.path()), "T");
  fs::create_directory(d / "additional_chat_templates");
  write_text(d / "additional_chat_templates/tool_use.jinja", "F");
  write_text(d / "chat_template.jinja", "D");
  check(Tokenizer::load(d.path()), "F");
  EXPECT_EQ(Tokenizer::load(d.path()).spec().more_templates.size(), 1u);
  fs::remove(d / "chat_template.jinja");
  const TestFolder again;
  Tokenizer::load(d.path()).save(again.path());
  EXPECT_EQ(Tokenizer::load(again.path()).chat_template(), "F");
  EXPECT_EQ(Tokenizer::load(again.path()).spec().chat_template, "");
  write_text(d / "tokenizer_config.json", R"({"chat_template":"D"})");
  fs::remove(d / "additional_chat_templates/tool_use.jinja");  // the empty folder says nothing
  check(Tokenizer::load(d.path()), "D");
}

// What replaced `from` by `to` in a good tokenizer.json is refused with.
std::string refusal(const std::string& from, const std::string& to) {
  std::string json = nlohmann::ordered_json::parse(read_text(fixture("gpt2/tokenizer.json"))).dump();
  const auto at = json.find(from);
  EXPECT_NE(at, json.npos) << from;
  json.replace(at, from.size(), to);
  try {
    Tokenizer::from_json(json);
  } catch (const DataError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Tokenizer, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(refusal(R"("normalizer":null)", R"("normalizer":{"type":"Uppercase"})"),
              HasSubstr("Uppercase"));
  EXPECT_THAT(refusal(R"("truncation":null)", R"("truncation":{"max_length":-5})"), HasSubstr("truncation"));
  EXPECT_THAT(refusal(R"("padding":null)", R"("padding":{"fill":1})"), HasSubstr("padding"));
  EXPECT_THAT(refusal(R"("type":"BPE")", R"("type":"Bigram")"), HasSubstr("Bigram"));
  EXPECT_THAT(refusal(R"("dropout":null)", R"("dropout":2)"), HasSubstr("dropout"));
  EXPECT_THAT(refusal(R"("version":"1.0")", R"("version":"2.0")"), HasSubstr("2.0"));
  EXPECT_THAT(refusal(R"("version":"1.0")", R"("version":"1.0","sauce":1)"), HasSubstr("sauce"));
}

TEST(Tokenizer, TruncationPaddingAndDropoutChangeNoIds) {
  std::string json = nlohmann::ordered_json::parse(read_text(fixture("gpt2/tokenizer.json"))).dump();
  for (
      const auto& [from, to] :
      {std::pair{R"("truncation":null)",
                 R"("truncation":{"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0})"},
       std::pair{
           R"("padding":null)",
           R"("padding":{"strategy":{"Fixed":9},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"x"})"},
       std::pair{R"("dropout":null)", R"("dropout":0.5)"}})
    json.replace(json.find(from), std::string(from).size(), to);
  const auto tokenizer = Tokenizer::from_json(json);
  EXPECT_EQ(tokenizer.encode("The harbour was quiet again."),
            Tokenizer::load(fixture("gpt2")).encode("The harbour was quiet again."));
  EXPECT_EQ(tokenizer_texts(tokenizer).back().text, json);
}

TEST(Tokenizer, ContradictionsAreRefused) {
  EXPECT_THAT(refusal(R"("<|endoftext|>":0)", R"("<|endoftext|>":1)"), HasSubstr("id 1"));
  EXPECT_THAT(refusal(R"("<|endoftext|>":0)", R"("<|endoftext|>":4000000000)"), HasSubstr("4000000000"));
  EXPECT_THAT(refusal(R"("<|endoftext|>":0)", R"("<|endoftext|>":-1)"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"("merges":[)", R"("merges":["no way",)"), HasSubstr("'no'"));
  EXPECT_THAT(refusal(R"("merges":[)", R"("merges":["three parts here",)"), HasSubstr("two tokens"));
  EXPECT_THAT(refusal(R"("id":0)", R"("id":5)"), HasSubstr("<|endoftext|>"));
}

TEST(Tokenizer, MissingAndTruncatedFiles) {
  EXPECT_THROW(Tokenizer::load("/nonexistent/tokenizer"), IoError);
  const TestFolder d;
  EXPECT_THROW(Tokenizer::load(d.path()), IoError);
  const std::string json = read_text(fixture("gpt2/tokenizer.json"));
  write_text(d.path() / "tokenizer.json", json.substr(0, json.size() / 2));
  EXPECT_THROW(Tokenizer::load(d.path()), DataError);
  fs::remove(d.path() / "tokenizer.json");
  write_text(d.path() / "vocab.json", "{}");
  EXPECT_THROW(Tokenizer::load(d.path()), IoError);  // no merges.txt
  write_text(d.path() / "merges.txt", "#version: 0.2\n");
  EXPECT_THROW(Tokenizer::load(d.path()), DataError);
}

TEST(StreamDecoder, EmitsWholeCharactersOnly) {
  const auto tokenizer = Tokenizer::load(fixture("gpt2"));
  const std::string text = "caf\u00e9 \U0001F642\u4eca tail";
  StreamDecoder stream(tokenizer);
  std::string all;
  bool waited = false;
  for (const unsigned char byte : text) {  // one token per byte
    const std::string symbol = ByteAlphabet().to_symbols(std::string(1, static_cast<char>(byte)));
    const std::string piece = stream.push(tokenizer.token_to_id(symbol).value());
    EXPECT_EQ(replace_invalid_utf8(piece), piece);
    waited = waited || piece.empty();
    all += piece;
  }
  EXPECT_TRUE(waited);
  EXPECT_EQ(all + stream.finish(), text);
}

TEST(StreamDecoder, InvalidBytesBecomeReplacementCharacters) {
  // Python: bytes.decode("utf-8", "replace").
  EXPECT_EQ(replace_invalid_utf8("a\xF0\x9F\x99z\xFF\xE0\x80\xED\xA0\x80\xC3"),
            "a\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  const auto tokenizer = Tokenizer::load(fixture("gpt2"));
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(tokenizer.token_to_id(ByteAlphabet().to_symbols("\xE4")).value()), "");
  EXPECT_EQ(stream.push(tokenizer.token_to_id("a").value()),
            "\uFFFD"
            "a");
  EXPECT_EQ(stream.push(tokenizer.token_to_id(ByteAlphabet().to_symbols("\xE4")).value()), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(Gpt2, SameIdsWithItsOwnVocabulary) {
  const fs::path data = test::shared_data();
  if (data.empty()) GTEST_SKIP() << "no shared data: GPT-2's vocabulary is not there";
  const auto tokenizer = Tokenizer::load(data / "gpt2-encoder.json");
  EXPECT_EQ(tokenizer.vocab_size(), 50257);
  EXPECT_EQ(tokenizer.eod_id(), 50256);
  expect_cases(tokenizer, test::read_json(fixture("gpt2-full.json")), "GPT-2");
}

TEST(Llama2, SameIdsWithARealVocabulary) {
  const fs::path data = test::shared_data();
  if (data.empty()) GTEST_SKIP() << "no shared data: the stories260k model is not there";
  const auto tokenizer = Tokenizer::load(data / "stories260k");
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  expect_cases(tokenizer, test::read_json(fixture("stories260k.json")), "stories260k");
}

// More cases made by tests/oracle/make_token_fixtures.py --many, in a folder outside the repository.
TEST(Gpt2, MoreCasesWhereNamed) {
  const char* folder = std::getenv("STOA_TOKEN_CASES");
  if (folder == nullptr) GTEST_SKIP() << "STOA_TOKEN_CASES names no folder";
  const auto samples = test::read_json(fs::path(folder) / "samples.json");
  for (const char* name : {"gpt2", "llama3", "qwen2", "bloom", "llama2"})
    expect_cases(Tokenizer::load(fixture(name)), samples[name], name);
  const fs::path data = test::shared_data();
  if (!data.empty() && fs::exists(fs::path(folder) / "gpt2-full.json")) {
    expect_cases(Tokenizer::load(data / "gpt2-encoder.json"),
                 test::read_json(fs::path(folder) / "gpt2-full.json"), "GPT-2");
  }
}

}  // namespace
}  // namespace stoa::token
