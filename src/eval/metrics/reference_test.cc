// Metrics and filters against sacrebleu, rouge_score, NLTK and the Python of lm-evaluation-harness's tasks:
// tests/fixtures/eval/metrics.json, which tests/oracle/make_eval_metric_fixtures.py wrote.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "eval/builtin/math_answers.h"
#include "eval/builtin/minerva_math.h"
#include "eval/builtin/reading.h"
#include "eval/metrics/edit_rate.h"
#include "eval/metrics/porter_stemmer.h"
#include "eval/metrics/regex_filters.h"
#include "eval/metrics/rouge.h"
#include "eval/metrics/text_scores.h"

namespace stoa::eval {
namespace {

const Json& reference_values() {
  static const Json json = Json::parse(read_text(test::source_dir() / "tests/fixtures/eval/metrics.json"));
  return json;
}

TEST(MetricReferences, StemsAreNltks) {
  for (const Json& pair : reference_values().at("stems"))
    EXPECT_EQ(porter_stem(pair[0]), pair[1].get<std::string>()) << pair[0];
}

TEST(MetricReferences, ScoresOfTextsAreSacrebleusAndRougeScores) {
  std::vector<TextPair> all;
  for (const Json& text : reference_values().at("texts")) {
    const TextPair pair{text["reference"], text["answer"]};
    SCOPED_TRACE(pair.answer);
    all.push_back(pair);
    EXPECT_EQ(EditRateCounts({pair}).score({0}), text["ter"].get<double>());
    EXPECT_DOUBLE_EQ(ChrfCounts({pair}).score({0}), text["chrf"].get<double>());
    EXPECT_DOUBLE_EQ(ChrfCounts({pair}, 2).score({0}), text["chrf++"].get<double>());
    const auto theirs = rouge_words(pair.reference, true), mine = rouge_words(pair.answer, true);
    EXPECT_EQ(rouge_n(theirs, mine, 1), text["rouge"][0].get<double>());
    EXPECT_EQ(rouge_n(theirs, mine, 2), text["rouge"][1].get<double>());
    EXPECT_EQ(rouge_l(theirs, mine), text["rouge"][2].get<double>());
    const auto plain = rouge_words(pair.reference, false), own = rouge_words(pair.answer, false);
    EXPECT_EQ(rouge_n(plain, own, 1), text["plain"][0].get<double>());
    EXPECT_EQ(rouge_l(plain, own), text["plain"][1].get<double>());
  }
  std::vector<std::size_t> everything(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) everything[i] = i;
  EXPECT_EQ(EditRateCounts(all).score(everything), reference_values().at("ter").get<double>());
}

TEST(MetricReferences, AnswersToProblemsOfMathematicsAreComparedAsTheHarnessDoes) {
  const auto right = [](const std::string& answer, const std::string& gold) {
    return math_results({{"solution", "\\boxed{" + gold + "}"}}, Json::array({answer})).at("exact_match") ==
           1;
  };
  for (const Json& triple : reference_values().at("math"))
    EXPECT_EQ(right(triple[0], triple[1]), triple[2].get<bool>()) << triple[0] << " and " << triple[1];
  for (const Json& pair : reference_values().at("boxed"))
    EXPECT_EQ(math_document({{"solution", pair[0]}}).at("answer"), pair[1]);
}

TEST(MetricReferences, AnswersOfMinervaAreWrittenAsTheHarnessDoes) {
  const Json& minerva = reference_values().at("minerva");
  for (const Json& pair : minerva.at("normal")) EXPECT_EQ(minerva_normal_answer(pair[0]), pair[1]) << pair[0];
  for (const Json& pair : minerva.at("final")) EXPECT_EQ(minerva_final_answer(pair[0]), pair[1]) << pair[0];
  const Json document =
      minerva_document({{"problem", "?"}, {"solution", "It is $\\boxed{\\frac12}$."}, {"type", "Algebra"}});
  EXPECT_EQ(document,
            Json({{"problem", "?"}, {"solution", "It is $\\boxed{\\frac12}$."}, {"answer", "\\frac{1}{2}"}}));
  const auto right = [&](const std::string& answer) {
    return minerva_results(document, Json::array({answer}))["exact_match_text"];
  };
  EXPECT_EQ(right("Final Answer: The final answer is $\\frac{1}{2}$. I hope it is correct."), 1);
  EXPECT_EQ(right("Final Answer: The final answer is $0.5$. I hope it is correct."), 0);
  EXPECT_EQ(minerva_samples().size(), 4U);
}

TEST(MetricReferences, DropsScoresAreTheHarness) {
  for (const Json& one : reference_values().at("drop")) {
    const Json made = drop_results({{"answers", one["golds"]}}, Json::array({one["answer"]}));
    EXPECT_EQ(made["em"], one["em"].get<double>()) << one;
    EXPECT_EQ(made["f1"], one["f1"].get<double>()) << one;
  }
}

TEST(MetricReferences, FiltersOfBigBenchHardAreTheHarness) {
  const Json& filters = reference_values().at("filters");
  for (const auto& [name, kind] : filters.at("kinds").items()) {
    const Json& options = kind.at("options");
    const auto filter = name == "map"      ? map_regex_filter(options)
                        : name == "number" ? number_filter(options)
                        : name == "sort"   ? word_sort_filter()
                                           : multi_choice_filter(options, true);
    for (std::size_t i = 0; i < filters["answers"].size(); ++i)
      if (!kind["made"][i].is_null()) {
        EXPECT_EQ(filter->apply(Json::array({filters["answers"][i]}), filters["document"])[0],
                  kind["made"][i])
            << name << ": " << filters["answers"][i];
      }
  }
}

}  // namespace
}  // namespace stoa::eval
