// Every component of tokenizer.json beside Hugging Face tokenizers: ids, offsets and decoded texts
// (tests/oracle/make_component_fixtures.py).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "token/encoder.h"
#include "token/json_reader.h"
#include "token/offset_encoder.h"
#include "token/pipeline/pipeline.h"
#include "token/stream_decoder.h"
#include "token/test_support.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class ComponentFixtures {
 public:
  ComponentFixtures() : all_(Json::parse(read_text(test::fixture("components.json")))) {
    for (const auto& text : all_["texts"]) texts_.push_back(text.get<std::string>());
  }
  const std::vector<std::string>& texts() const { return texts_; }
  const Json& tokenizers() const { return all_["tokenizers"]; }
  // The tokenizer.json of an entry.
  std::string file(const Json& entry) const {
    Json out = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
    for (const char* key : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
      out[key] = entry[key];
    out["model"] = all_["models"][entry["model"].get<std::string>()];
    return out.dump();
  }
  std::string file_of(const std::string& name) const {
    for (const Json& entry : tokenizers())
      if (entry["name"] == name) return file(entry);
    throw std::runtime_error("no tokenizer " + name);
  }

 private:
  const Json all_;
  std::vector<std::string> texts_;
};

std::string sum_of(const Encoding& e, const std::string& decoded) {
  std::string text;
  for (std::size_t i = 0; i < e.ids.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", e.ids[i]);
  text += ';';
  for (std::size_t i = 0; i < e.ids.size(); ++i)
    text += fmt::format("{}{}-{}", i == 0 ? "" : ",", e.offsets[i].begin, e.offsets[i].end);
  text += ';' + decoded;
  std::uint64_t value = 0xCBF29CE484222325u;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001B3u;
  return fmt::format("{:08x}", value & 0xFFFFFFFFu);
}

TEST(Components, SameIdsOffsetsAndTextsAsHuggingFace) {
  const ComponentFixtures fixtures;
  ASSERT_GT(fixtures.tokenizers().size(), 100U);
  for (const Json& entry : fixtures.tokenizers()) {
    const auto name = entry["name"].get<std::string>();
    const auto tokenizer = Tokenizer::from_json(fixtures.file(entry));
    OffsetEncoder offsets(tokenizer);
    Encoder encoder(tokenizer);
    const auto sums = entry["sums"].get<std::string>();
    std::size_t at = 0;
    int wrong = 0;
    for (const std::string& text : fixtures.texts()) {
      const std::string expected = sums.substr(at, sums.find(' ', at) - at);
      at += expected.size() + 1;
      Encoding e;
      offsets.encode(text, {.add_special = true}, e);
      std::vector<TokenId> ids;
      encoder.encode(text, {.add_special = true}, ids);
      EXPECT_EQ(ids, e.ids) << name << ": " << Json(text) << " by the shorter way";
      if (sum_of(e, replace_invalid_utf8(tokenizer.decode(e.ids))) == expected || expected == "-") continue;
      std::string shown;
      for (std::size_t i = 0; i < e.ids.size(); ++i)
        shown += fmt::format(" {}'{}'[{},{}]", e.ids[i], tokenizer.id_to_token(e.ids[i]), e.offsets[i].begin,
                             e.offsets[i].end);
      if (++wrong <= 3)
        ADD_FAILURE() << name << ": " << Json(text) << " gave" << shown << ", decoded "
                      << Json(replace_invalid_utf8(tokenizer.decode(e.ids)));
    }
    EXPECT_EQ(wrong, 0) << name;
  }
}

TEST(Components, TheShortWaysAreTaken) {
  const ComponentFixtures fixtures;
  const auto form = [&](const std::string& name) {
    return Tokenizer::from_json(fixtures.file_of(name)).spec().form;
  };
  const auto split = [&](const std::string& name) {
    return Tokenizer::from_json(fixtures.file_of(name)).spec().split;
  };
  EXPECT_EQ(form("bytes/gpt2"), SymbolForm::kByteLevel);
  EXPECT_EQ(split("bytes/gpt2"), SplitPattern::kGpt2);
  EXPECT_EQ(split("bytes/o200k"), SplitPattern::kOther);
  EXPECT_EQ(split("bytes/deepseek"), SplitPattern::kOther);
  EXPECT_EQ(form("bytes/neox"), SymbolForm::kByteLevel);
  EXPECT_EQ(form("bytes/prefix-each"), SymbolForm::kComponents);
  EXPECT_EQ(form("model/wordpiece-bert"), SymbolForm::kWordPiece);
  EXPECT_EQ(form("model/unigram"), SymbolForm::kComponents);
}

TEST(Components, FilesAreWrittenAsTheyWereRead) {
  const ComponentFixtures fixtures;
  for (const char* name : {"pre/many", "bytes/deepseek", "model/wordpiece-bert", "normalizer/precompiled"}) {
    const TestFolder from, to;
    write_text(from.path() / "tokenizer.json", fixtures.file_of(name));
    const auto tokenizer = Tokenizer::load(from.path());
    tokenizer.save(to.path());
    EXPECT_EQ(read_text(to.path() / "tokenizer.json"), fixtures.file_of(name)) << name;
    EXPECT_EQ(Tokenizer::load(to.path()).fingerprint(), tokenizer.fingerprint()) << name;
  }
  EXPECT_NE(Tokenizer::from_json(fixtures.file_of("pre/digits")).fingerprint(),
            Tokenizer::from_json(fixtures.file_of("pre/digit")).fingerprint());
  EXPECT_NE(Tokenizer::from_json(fixtures.file_of("bytes/o200k")).fingerprint(),
            Tokenizer::from_json(fixtures.file_of("bytes/deepseek")).fingerprint());
}

TEST(Components, StreamsGiveTheDecodedText) {
  const ComponentFixtures fixtures;
  for (const char* name :
       {"decoder/llama", "model/wordpiece", "decoder/bpe", "bytes/upper", "decoder/metaspace"}) {
    const auto tokenizer = Tokenizer::from_json(fixtures.file_of(name));
    for (const char* text : {"Hello world, it is 3.14", "low lower 🙂 今天 é", " a  b "}) {
      const auto ids = tokenizer.encode(text);
      StreamDecoder stream(tokenizer);
      std::string all;
      for (const TokenId id : ids) all += stream.push(id);
      EXPECT_EQ(all + stream.finish(), replace_invalid_utf8(tokenizer.decode(ids))) << name << ": " << text;
    }
  }
}

TEST(Components, TextThatIsNotUtf8) {
  const ComponentFixtures fixtures;
  for (const char* name : {"bytes/neox", "model/unigram", "bytes/upper"}) {
    const auto tokenizer = Tokenizer::from_json(fixtures.file_of(name));
    EXPECT_EQ(tokenizer.encode("a\xFF\xC3z"), tokenizer.encode("a\uFFFD\uFFFDz")) << name;
  }
  // Where all bytes have tokens they come back, however words are cut.
  const auto tokenizer = Tokenizer::from_json(fixtures.file_of("bytes/o200k"));
  test::Random random(3);
  for (int n = 0; n < 200; ++n) {
    const std::string text = random.bytes(random.below(100));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Components, HostileTextsTakeLinearTimeOrAreRefused) {
  const ComponentFixtures fixtures;
  // A megabyte each; the suite's time limit is the bound.
  for (const char* name :
       {"bytes/o200k", "bytes/deepseek", "model/unigram-whole", "model/characters-whole", "model/prefix",
        "model/wordpiece", "pre/many", "normalizer/many", "normalizer/bert", "added/blanks"}) {
    const auto tokenizer = Tokenizer::from_json(fixtures.file_of(name));
    for (const char* part : {"a", " ", "\n", "\u0301", "今", "ab ", "1", "'s"}) {
      std::string text;
      while (text.size() < 1'000'000) text += part;
      EXPECT_NO_THROW((void)tokenizer.encode(text)) << name << ": " << part;
    }
  }
  auto file = Json::parse(fixtures.file_of("pre/split-Isolated"));
  file["pre_tokenizer"]["pattern"]["Regex"] = "(a+)+$";
  const auto tokenizer = Tokenizer::from_json(file.dump());
  try {
    (void)tokenizer.encode(std::string(60, 'a') + "b");
    ADD_FAILURE() << "a pattern that doubles with every character came to an end";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("does not terminate"));
  }
}

// Where two ways to cut a text are as probable, the last bit of a score decides: ids are those of tokenizers
// 0.23.3, whose parser reads these numbers otherwise than to the nearest.
TEST(Components, ScoresAreReadAsTheLibraryReadsThem) {
  const auto ids = [](const char* one, const char* two, std::size_t length) {
    return Tokenizer::from_json(fmt::format(R"({{"version": "1.0", "model": {{"type": "Unigram", "unk_id": 0,
                           "vocab": [["<unk>", 0.0], ["a", {}], ["aa", {}]]}}}})",
                                            one, two))
        .encode(std::string(length, 'a'));
  };
  EXPECT_THAT(ids("-11.180774262262787", "-12.884900567554102", 5), ::testing::ElementsAre(2, 2, 1));
  EXPECT_THAT(ids("-11.773426867993255", "-12.297949106273848", 11),
              ::testing::ElementsAre(2, 2, 2, 2, 2, 1));
  EXPECT_THAT(ids("-11.062901806516567", "-11.319208424716077", 7), ::testing::ElementsAre(1, 2, 2, 2));
  EXPECT_EQ(as_tokenizers_reads(-7.2147313217222795), -7.21473132172228);
  EXPECT_EQ(as_tokenizers_reads(-10), -10);
  EXPECT_EQ(as_tokenizers_reads(0), 0);
  EXPECT_EQ(as_tokenizers_reads(2.5e-310), 2.5e-310);
  EXPECT_EQ(as_tokenizers_reads(1e300), 1e300);
}

TEST(Components, WhatIsUnknownIsRefusedByName) {
  const ComponentFixtures fixtures;
  const auto refusal = [&](const char* part, const Json& value) -> std::string {
    auto file = Json::parse(fixtures.file_of("pre/metaspace"));
    file[part] = value;
    try {
      Tokenizer::from_json(file.dump());
    } catch (const DataError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("normalizer", {{"type", "Upper"}}), HasSubstr("Upper is not one of"));
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "Guess"}}), HasSubstr("Guess is not one of"));
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "Digits"}, {"sauce", 1}}), HasSubstr("sauce"));
  EXPECT_THAT(refusal("decoder", {{"type", "Morse"}}), HasSubstr("Morse is not one of"));
  EXPECT_THAT(refusal("post_processor", {{"type", "Wrap"}}), HasSubstr("Wrap is not one of"));
  EXPECT_THAT(
      refusal(
          "pre_tokenizer",
          {{"type", "Split"}, {"pattern", {{"Regex", "(("}}}, {"behavior", "Isolated"}, {"invert", false}}),
      HasSubstr("not a regular expression"));
  EXPECT_THAT(refusal("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA!"}}),
              HasSubstr("base64"));
  Json model = Json::parse(fixtures.file_of("pre/metaspace"))["model"];
  model["dropout"] = 1.5;
  EXPECT_THAT(refusal("model", model), HasSubstr("dropout"));
  Json deep = {{"type", "NFC"}};
  for (int i = 0; i < 40; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  EXPECT_THAT(refusal("normalizer", deep), HasSubstr("deep"));
}

}  // namespace
}  // namespace stoa::token
