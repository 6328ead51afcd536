#include "eval/builtin/document_filters.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "eval/builtin/afrobench.h"
#include "eval/builtin/mmlu_pro.h"

namespace stoa::eval {
namespace {

std::vector<Json> filtered(const std::string& name, std::vector<Json> docs) {
  document_filter(name)(docs, 0);
  return docs;
}

TEST(DocumentFilters, KeepTheDocumentsOfASubject) {
  const std::vector<Json> docs{{{"domain", "Arts & Humanities"}, {"n", 1}}, {{"domain", "STEM"}, {"n", 2}}};
  EXPECT_EQ(filtered("include.process_arts_humanities", docs), std::vector<Json>{docs[0]});
  EXPECT_EQ(filtered("include.process_stem", docs), std::vector<Json>{docs[1]});
  EXPECT_TRUE(filtered("mmlu_pro.process_computer_science", {{{"category", "law"}}}).empty());
  EXPECT_EQ(filtered("bigbench.filter_multiple_choice",
                     {{{"multiple_choice_targets", Json::array()}}, {{"multiple_choice_targets", {"a"}}}})
                .size(),
            1U);
  const std::vector<Json> exams{{{"answer", 3}, {"candidates", {"a", "b", "c", "d"}}},
                                {{"answer", nullptr}, {"candidates", {"a", "b", "c", "d"}}},
                                {{"answer", 0}, {"candidates", {"", "", "", ""}}}};
  EXPECT_EQ(filtered("eus_exams.process_docs", exams), std::vector<Json>{exams[0]});
  EXPECT_FALSE(document_filter("include.docs"));
  EXPECT_THROW(filtered("global_mmlu.process_anatomy", {{{"domain", "x"}}}), DataError);
}

TEST(DocumentFilters, PromptsHoldTheChoices) {
  EXPECT_EQ(mmlu_pro_text({{"question", "Which?"}, {"options", {" one", "two"}}}),
            "Question:\nWhich?\nOptions:\nA. one\nB. two\nAnswer: Let's think step by step.");
  EXPECT_EQ(mmlu_pro_shot_target({{"cot_content", "A: Let's think step by step. So (A)."}}), "So (A).");
  const auto& functions = afrobench_functions();
  const Json doc{
      {"subject", "maths"}, {"question", "What {is} it?"}, {"choices", "['a', \"b's\", 'c', 'd']"}};
  const std::string text = functions.at("afrimmlu_5.doc_to_text")(doc);
  EXPECT_TRUE(
      text.ends_with("Question: What {is} it?\nChoices:\n        A: a\n        B: b's\n        C: c\n        "
                     "D: d\nAnswer: "))
      << text;
  EXPECT_EQ(functions.at("afrimmlu_5.doc_to_choice")(doc)[1], "b's");
  EXPECT_EQ(functions.at("afrixnli_truth.doc_to_target")({{"label", 1}}), "Neither");
  EXPECT_THROW(functions.at("afrixnli_truth.doc_to_target")({{"label", 3}}), DataError);
  EXPECT_THROW(
      functions.at("afrimmlu_5.doc_to_text")({{"subject", ""}, {"question", ""}, {"choices", "['a']"}}),
      DataError);
}

}  // namespace
}  // namespace stoa::eval
