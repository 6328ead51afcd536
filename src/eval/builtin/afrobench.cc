#include "eval/builtin/afrobench.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "eval/builtin/document.h"

namespace stoa::eval {
namespace {

// A text as a parameter of a template: what makes a prompt is a function without state.
template <std::size_t N>
struct Pattern {
  std::array<char, N> text{};
  // NOLINTNEXTLINE: a literal becomes one
  constexpr Pattern(const char (&from)[N]) { std::copy_n(from, N, text.begin()); }
  constexpr std::string_view view() const { return {text.data(), N - 1}; }
};

// `pattern` with the values of {names}.
template <class ValueOf>
std::string with_values(std::string_view pattern, const ValueOf& value_of) {
  std::string out;
  while (!pattern.empty()) {
    const std::size_t begin = std::min(pattern.find('{'), pattern.size());
    out += pattern.substr(0, begin);
    pattern.remove_prefix(begin);
    if (pattern.empty()) break;
    const std::size_t end = pattern.find('}');
    out += value_of(std::string(pattern.substr(1, end - 1)));
    pattern.remove_prefix(end + 1);
  }
  return out;
}

Json listed_choices(const Json& doc) { return literal(text_field(doc, "choices")); }

// The parts of a prompt, one after the other: {choice1} … {choice4} are the choices, other names fields of
// the document.
template <Pattern... kParts>
Json question_of(const Json& doc) {
  const Json choices = listed_choices(doc);
  const auto value_of = [&](const std::string& name) {
    if (!name.starts_with("choice")) return text_field(doc, name.c_str());
    const auto number = static_cast<std::size_t>(name.back() - '1');
    require<DataError>(choices.is_array() && number < choices.size(),
                       "the document has {} choices, expected 4", choices.size());
    return str_of(choices[number]);
  };
  return (with_values(kParts.view(), value_of) + ...);
}

template <Pattern... kParts>
Json inference_of(const Json& doc) {
  const auto value_of = [&](const std::string& name) { return text_field(doc, name.c_str()); };
  return (with_values(kParts.view(), value_of) + ...);
}

template <Pattern kFirst, Pattern kSecond, Pattern kThird>
Json label_word(const Json& doc) {
  const auto it = doc.find("label");
  require<DataError>(it != doc.end() && it->is_number_integer() && *it >= 0 && *it <= 2,
                     "the document's label is not 0, 1 or 2");
  const std::array words{kFirst.view(), kSecond.view(), kThird.view()};
  return std::string(words[it->get<std::size_t>()]);
}

constexpr DocFunction kEntailment = label_word<"entailment", "neutral", "contradiction">;

constexpr Pattern kExpert = R"(You are a highly knowledgeable and intelligent artificial intelligence
                model answers multiple-choice questions about {subject}

                Question: {question}

                Choices:
                        A: {choice1}
                        B: {choice2}
                        C: {choice3}
                        D: {choice4}

                Answer:  )";
// Follows the introductions below.
constexpr Pattern kMultipleChoice = R"(Question: {question}
Choices:
        A: {choice1}
        B: {choice2}
        C: {choice3}
        D: {choice4}
Answer: )";
constexpr Pattern kNuances =
    R"(As an expert in {subject}, choose the most accurate answer to the question below.
Your goal is to select the correct option 'A', 'B', 'C', or 'D' by understanding the nuances of the topic.

)";
constexpr Pattern kMatter = R"(You are a subject matter expert in {subject}.

  Utilizing your expertise in {subject}, answer the following multiple-choice question
  by picking 'A', 'B', 'C', or 'D'.

)";
constexpr Pattern kMatterQuoted = R"(You are a subject matter expert in {subject}.

  Utilizing your expertise in {subject}, answer the following multiple-choice question
  by picking ''A'', ''B'', ''C'', or ''D''.

)";
constexpr Pattern kCritically =
    R"(Analyze each question critically and determine the most correct option based on your understanding of the subject matter

)";
constexpr Pattern kProficiency =
    R"(Given your proficiency in {subject}, please answer the subsequent multiple-choice question with 'A', 'B', 'C', or 'D'.

)";
constexpr Pattern kProficiencyClose =
    R"(Given your proficiency in {subject}, please answer the subsequent multiple-choice question with 'A', 'B', 'C', or 'D'.
)";
constexpr Pattern kInference =
    R"(Please identify whether the premise entails or contradicts the hypothesis in the following premise
    and hypothesis. The answer should be exact entailment, contradiction, or neutral.

    Premise: {premise}
    Hypothesis: {hypothesis}

    Is it entailment, contradiction, or neutral?)";
constexpr Pattern kRole =
    R"(You are an NLP assistant whose purpose is to solve Natural Language Inference (NLI) problems

    )";

}  // namespace

const std::map<std::string, DocFunction>& afrobench_functions() {
  static const std::map<std::string, DocFunction> table{
      {"afrimmlu_1.doc_to_text", question_of<kExpert>},
      {"afrimmlu_1.doc_to_choice", listed_choices},
      {"afrimmlu_2.doc_to_text", question_of<kNuances, kMultipleChoice>},
      {"afrimmlu_2.doc_to_choice", listed_choices},
      {"afrimmlu_3.doc_to_text", question_of<kMatter, kMultipleChoice>},
      {"afrimmlu_3.doc_to_choice", listed_choices},
      {"afrimmlu_3_translated.doc_to_text", question_of<kMatterQuoted, kMultipleChoice>},
      {"afrimmlu_3_translated.doc_to_choice", listed_choices},
      {"afrimmlu_4.doc_to_text", question_of<kCritically, kMultipleChoice>},
      {"afrimmlu_4.doc_to_choice", listed_choices},
      {"afrimmlu_5.doc_to_text", question_of<kProficiency, kMultipleChoice>},
      {"afrimmlu_5.doc_to_choice", listed_choices},
      {"afrimmlu_5_translated.doc_to_text", question_of<kProficiencyClose, kMultipleChoice>},
      {"afrimmlu_5_translated.doc_to_choice", listed_choices},
      {"afrixnli.doc_to_text", inference_of<kInference>},
      {"afrixnli.doc_to_target", kEntailment},
      {"afrixnli_with_role.doc_to_text", inference_of<kRole, kInference>},
      {"afrixnli_with_role.doc_to_target", kEntailment},
      {"afrixnli_words.doc_to_target", kEntailment},
      {"afrixnli_truth.doc_to_target", label_word<"True", "Neither", "False">},
      {"afrixnli_inconclusive.doc_to_target", label_word<"true", "false", "inconclusive">}};
  return table;
}

}  // namespace stoa::eval
