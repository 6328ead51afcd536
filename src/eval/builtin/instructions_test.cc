// Sentences, words and instructions of IFEval against NLTK and lm-evaluation-harness:
// tests/fixtures/eval/metrics.json and the small model of sentences beside it.
#include "eval/builtin/instructions.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "eval/builtin/sentences.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;

const Json& instruction_fixture() {
  static const Json json = [] {
    const fs::path folder = test::source_dir() / "tests/fixtures/eval";
    ::setenv("NLTK_DATA", (folder / "nltk_data").c_str(), 1);
    return Json::parse(read_text(folder / "metrics.json"));
  }();
  return json;
}

TEST(Instructions, SentencesAndWordsAreNltks) {
  for (const Json& text : instruction_fixture().at("sentences")) {
    const std::string whole = text[0];
    SCOPED_TRACE(whole);
    std::vector<std::string> sentences;
    for (const std::string_view s : SentenceCutter::english().sentences(whole)) sentences.emplace_back(s);
    EXPECT_EQ(Json(sentences), text[1]);
    EXPECT_EQ(Json(SentenceCutter::english().words(whole)), text[2]);
  }
}

TEST(Instructions, AreFollowedWhereTheHarnessSaysSo) {
  const Json& fixture = instruction_fixture().at("instructions");
  Json doc{{"instruction_id_list", Json::array()}, {"kwargs", Json::array()}};
  for (const Json& kind : fixture.at("kinds")) {
    doc["instruction_id_list"].push_back(kind[0]);
    doc["kwargs"].push_back(kind[1]);
  }
  for (const Json& answer : fixture.at("answers")) {
    const Json made = ifeval_results(doc, Json::array({answer[0]}));
    const std::string strict = answer[1], loose = answer[2];
    for (std::size_t i = 0; i < strict.size(); ++i) {
      const std::string id = doc["instruction_id_list"][i];
      // CLD2 and the harness's library differ on a few words and on several languages in one text.
      const bool by_language = id.starts_with("language:") || id.starts_with("change_case:english");
      const std::string text = answer[0];
      if (by_language && (code_points(text) < 40 || text.find("\n\n") != std::string::npos)) continue;
      EXPECT_EQ(made["inst_level_strict_acc"][i].get<bool>(), strict[i] == '1')
          << id << " " << doc["kwargs"][i] << ": " << answer[0];
      EXPECT_EQ(made["inst_level_loose_acc"][i].get<bool>(), loose[i] == '1')
          << "loosely " << id << " " << doc["kwargs"][i] << ": " << answer[0];
    }
  }
}

TEST(Instructions, WhatIsUnknownOrLackingIsNamed) {
  const auto problem = [](const std::string& id, const Json& arguments) -> std::string {
    try {
      follows_instruction(id, arguments, "an answer");
    } catch (const DataError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(problem("punctuation:no_coma", Json::object()),
              HasSubstr("did you mean 'punctuation:no_comma'"));
  EXPECT_EQ(problem("keywords:existence", {{"keywords", nullptr}}),
            "the instruction 'keywords:existence' needs 'keywords'");
  EXPECT_THAT(problem("length_constraints:number_words", {{"num_words", 3}, {"relation", "about"}}),
              HasSubstr("expected 'less than' or 'at least'"));
}

}  // namespace
}  // namespace stoa::eval
