// Made documents against those of lm-evaluation-harness: tests/fixtures/eval/ruler.json, which
// tests/oracle/make_ruler_fixtures.py wrote with a tokenizer of four characters to a token.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "eval/builtin/gpqa.h"
#include "eval/results/sha256.h"
#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;

class Ruler : public ::testing::Test {
 protected:
  Ruler() : json(Json::parse(read_text(test::source_dir() / "tests/fixtures/eval/ruler.json"))) {
    ::setenv("NLTK_DATA", (test::source_dir() / "tests/fixtures/eval/nltk_data").c_str(), 1);
    fs::create_directories(folder / "baber/paul_graham_essays");
    std::string lines;
    for (const Json& essay : json["essays"]) lines += Json{{"text", essay}}.dump() + "\n";
    write_text(folder / "baber/paul_graham_essays/train.jsonl", lines);
    for (const auto& [name, text] : json["files"].items()) write_text(folder / name, text.get<std::string>());
    options.metadata = {{"max_seq_lengths", json["lengths"]}};
    options.tokens = [](const std::string& text) { return code_points(text) / 4; };
    options.data = {folder.path()};
    options.words = test::source_dir() / "configs/eval/ruler";
  }

  std::vector<Json> made(const std::string& task) {
    Making making(options);
    return ruler_maker(task)(making);
  }
  std::string problem(const std::string& task) {
    try {
      made(task);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const Json json;
  TestFolder folder;
  MakingOptions options;
};

TEST_F(Ruler, DocumentsAreTheHarness) {
  int tasks = 0;
  for (const auto& [task, expected] : json["tasks"].items()) {
    SCOPED_TRACE(task);
    ASSERT_NE(ruler_maker(task), nullptr);
    const std::vector<Json> documents = made(task);
    ASSERT_EQ(documents.size(), expected["documents"].get<std::size_t>());
    std::string all;
    for (const Json& document : documents) all += (all.empty() ? "" : "\n") + dumped(document);
    EXPECT_EQ(dumped(documents.front()).substr(0, 1500),
              expected["first"].get<std::string>().substr(0, 1500));
    EXPECT_EQ(sha256(all), expected["sha256"]);
    ++tasks;
  }
  EXPECT_EQ(tasks, 13);
  EXPECT_EQ(ruler_makers().size(), 13U);
}

TEST_F(Ruler, FewerDocumentsAreTheFirstOnes) {
  options.metadata = {{"max_seq_lengths", Json::array({512})}, {"num_samples", 4}};
  const auto four = made("niah_utils.niah_multikey_3");
  options.metadata["num_samples"] = 2;
  const auto two = made("niah_utils.niah_multikey_3");
  ASSERT_EQ(four.size(), 4U);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(four[1], two[1]);
  EXPECT_LE(four[0]["length"].get<int>(), 512);
}

TEST_F(Ruler, EachLengthIsAFigure) {
  const Json doc{{"outputs", {"Rome", "Oslo"}}, {"max_length", 8192}};
  EXPECT_EQ(ruler_results(doc, Json::array({" they are ROME,\x01 Bern "})),
            Json({{"4096", -1.0}, {"8192", 0.5}}));
  EXPECT_EQ(ruler_figure({-1.0, 0.5, 1.0}), 0.75);
  EXPECT_EQ(ruler_figure({-1.0}), -1.0);
}

TEST_F(Ruler, WhatIsMissingIsSaid) {
  options.metadata = {{"max_seq_lengths", Json::array({256})}};
  EXPECT_THAT(problem("cwe_utils.get_cw_dataset"), HasSubstr("256 tokens leave no room for"));
  options.data = {};
  EXPECT_THAT(problem("niah_utils.niah_single_2"), HasSubstr("baber/paul_graham_essays"));
  EXPECT_THAT(problem("qa_utils.get_squad"), HasSubstr("dev-v2.0.json"));
  options.metadata = {{"max_seq_lengths", Json::array({"4k"})}};
  EXPECT_THAT(problem("vt_utils.get_vt_dataset"), HasSubstr("max_seq_lengths: expected whole numbers"));
  options.tokens = nullptr;
  EXPECT_THAT(problem("vt_utils.get_vt_dataset"), HasSubstr("--tokenizer"));
  EXPECT_EQ(ruler_maker("niah_utils.niah_single_9"), nullptr);
}

TEST_F(Ruler, AnswersOfGpqaAreShuffledByPythonsGenerator) {
  std::vector<Json> docs;
  const Json one{{"Incorrect Answer 1", " a  b"},
                 {"Incorrect Answer 2", nullptr},
                 {"Incorrect Answer 3", "c [title] d"},
                 {"Correct Answer", "e"}};
  docs.assign(json["orders"].size(), one);
  const std::vector<std::string> cleaned{"a b", " ", "c.  d", "e"};
  gpqa_documents(docs, 0);
  for (std::size_t i = 0; i < docs.size(); ++i)
    for (std::size_t c = 0; c < 4; ++c) {
      const auto from = json["orders"][i][c].get<std::size_t>();
      EXPECT_EQ(docs[i]["choice" + std::to_string(c + 1)], replaced(cleaned[from], "  ", " "));
      if (from != 3) continue;
      EXPECT_EQ(docs[i]["answer"], std::string("(") + static_cast<char>('A' + c) + ")");
    }
  docs.push_back(Json::object());
  EXPECT_THROW(gpqa_generative_documents(docs, 0), DataError);
}

}  // namespace
}  // namespace stoa::eval
