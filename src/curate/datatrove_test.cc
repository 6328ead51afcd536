// Decisions, words and hashes beside those of datatrove itself (tests/oracle/make_curate_fixtures.py;
// tests/slow/curate_oracle.py compares them on any number of documents).
#include "curate/filters/datatrove.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/test_paths.h"
#include "curate/dedup/minhash.h"
#include "curate/filters/minhash_signature.h"
#include "curate/io/json_document.h"

namespace stoa::curate {
namespace {

std::vector<nlohmann::json> recorded_rows() {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_text(test::source_dir() / "tests/fixtures/curate/datatrove.jsonl"));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  EXPECT_GT(rows.size(), 50U);
  return rows;
}

struct Chain {
  std::vector<std::pair<std::string, std::unique_ptr<Stage>>> stages;
  Features features;

  Chain() {
    C4Quality c4;
    c4.filter_no_terminal_punct = false;
    stages.emplace_back("gopher_repetition", make_stage(GopherRepetition{}));
    stages.emplace_back("gopher_quality", make_stage(GopherQuality{}));
    stages.emplace_back("c4_quality", make_stage(c4));
    stages.emplace_back("fineweb_quality", make_stage(FineWebQuality{}));
  }
  std::string reason(Document& document) {
    features.reset(document.text);
    Verdict verdict;
    for (const auto& [name, stage] : stages) {
      stage->apply(document, features, verdict);
      if (verdict.dropped()) return name + "/" + verdict.rule();
    }
    return "";
  }
};

TEST(Datatrove, SameWordsAndSentences) {
  EnglishWords english;
  for (int round = 0; round < 2; ++round)  // the second from memory
    for (const auto& row : recorded_rows()) {
      const std::string text = row["text"];
      std::vector<std::string> words;
      const auto found = english.split(text);
      for (const Word& word : found) words.emplace_back(word.text());
      EXPECT_EQ(words, row["words"].get<std::vector<std::string>>()) << text;
      EXPECT_EQ(count_sentences(found, english.ends_with_gap()), row["sentences"].get<std::int64_t>())
          << text;
    }
}

TEST(Datatrove, SameDecisionsOfTheChainOfFineWeb) {
  Chain chain;
  for (const auto& row : recorded_rows()) {
    Document document{"", row["text"], "", ""};
    EXPECT_EQ(chain.reason(document), row["reason"].get<std::string>()) << row["text"];
    if (row["reason"] == "") {
      EXPECT_EQ(document.text, row.value("left", row["text"].get<std::string>()));
    }
  }
}

TEST(Datatrove, WordsOfARewrittenTextAreCountedAsIfItWereSplitAgain) {
  C4Quality options;
  options.min_num_sentences = 0;
  options.filter_curly_bracket = options.filter_lorem_ipsum = false;
  const auto stage = make_stage(options);
  Features features;
  EnglishWords english;
  int rewritten = 0;
  for (const auto& row : recorded_rows()) {
    Document document{"", row["text"], "", ""};
    features.reset(document.text);
    Verdict verdict;
    stage->apply(document, features, verdict);
    ASSERT_FALSE(verdict.dropped());
    rewritten += document.text != row["text"].get<std::string>();
    EXPECT_EQ(features.word_count(), std::ssize(english.split(document.text)));
  }
  EXPECT_GT(rewritten, 20);
}

TEST(Datatrove, SameSimplifiedTextsAndSignatures) {
  const MinHash hash{MinHashOptions{}};
  EXPECT_EQ(hash.factors()[0], 775169054918279404U);
  EXPECT_EQ(hash.factors()[1], 1758426461858698313U);
  EXPECT_EQ(hash.factors()[111], 223865076026037746U);
  EXPECT_EQ(hash.addends()[0], 1062448801025099917U);
  EXPECT_EQ(hash.addends()[111], 1097409548522419201U);
  MinHashSigner signer(hash);
  Simplifier simplify;
  for (const auto& row : recorded_rows()) {
    if (!row.contains("signature")) continue;
    const std::string text = row["text"];
    EXPECT_EQ(simplify(text), row["simplified"].get<std::string>());
    const auto signature = signer.sign(text);
    std::vector<std::string> some;
    for (std::size_t i = 0; i < signature.size(); i += 8) some.push_back(fmt::format("{:x}", signature[i]));
    EXPECT_EQ(some, row["signature"].get<std::vector<std::string>>()) << text;
  }
}

TEST(Datatrove, DocumentsHoldTheirSignatureWhereAStageWritesIt) {
  const auto stage = make_stage(MinHashSignature{});
  int signatures = 0;
  for (const auto& row : recorded_rows()) {
    if (!row.contains("signature")) continue;
    Document document{"", row["text"], "", ""};
    Features features;
    features.reset(document.text);
    Verdict verdict;
    stage->apply(document, features, verdict);
    const std::string written = string_member("minhash", document.metadata);
    const auto expected = row["signature"].get<std::vector<std::string>>();
    ASSERT_EQ(written.size(), expected.size() * 8 * 16);
    signatures += !expected.empty();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::stoull(written.substr(i * 8 * 16, 16), nullptr, 16),
                std::stoull(expected[i], nullptr, 16));
  }
  EXPECT_GT(signatures, 10);
}

TEST(Datatrove, NumbersAreTakenForPunctuationLast) {
  Simplifier simplify;
  EXPECT_EQ(simplify("A \uff11, b\uff11\uff12.5 \uff0d\uff11"), "a 0 b0 \uff0d0");
}

// A text of `words` different words in sentences on lines: every rule holds.
std::string good_text(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) {
    text += i % 12 == 0 ? "the " : i % 12 == 5 ? "and " : "";
    std::string word = "word";
    for (int n = i + 1; n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    text += word + (i % 12 == 11 ? ".\n" : " ");
  }
  return text;
}

TEST(Datatrove, AThresholdOfZeroSwitchesARuleOff) {
  Features features;
  Document document{"", good_text(30), "", ""};
  features.reset(document.text);
  for (const std::int64_t least : {50, 0}) {
    GopherQuality options;
    options.min_doc_words = least;
    Verdict verdict;
    make_stage(options)->apply(document, features, verdict);
    EXPECT_EQ(verdict.rule(), least == 50 ? "gopher_short_doc" : "");
  }
}

TEST(Verdict, MeasuringGoesOnAfterTheFirstRuleThatFails) {
  Document document{"", "a # b # c ... ", "", ""};
  Features features;
  features.reset(document.text);
  Verdict verdict(Verdict::Mode::kMeasure);
  make_stage(GopherQuality{})->apply(document, features, verdict);
  EXPECT_EQ(verdict.rule(), "gopher_short_doc");
  EXPECT_GE(verdict.values().size(), 9U);
  Verdict deciding;
  make_stage(GopherQuality{})->apply(document, features, deciding);
  EXPECT_EQ(deciding.rule(), verdict.rule());
  EXPECT_TRUE(deciding.values().empty());
}

}  // namespace
}  // namespace stoa::curate
