#include "eval/builtin/summaries.h"

#include <string>

#include "eval/builtin/document.h"
#include "eval/metrics/rouge.h"

namespace stoa::eval {
namespace {

Json rouge_against(const std::string& reference, const std::string& answer) {
  const auto theirs = rouge_words(reference, true), mine = rouge_words(answer, true);
  return {{"rouge1", rouge_n(theirs, mine, 1)},
          {"rouge2", rouge_n(theirs, mine, 2)},
          {"rougeL", rouge_l(theirs, mine)},
          {"summary_length", words_of(answer).size()}};
}

}  // namespace

Json highlights_results(const Json& doc, const Json& answers) {
  return rouge_against(text_field(doc, "highlights"), answers.at(0));
}

Json summary_results(const Json& doc, const Json& answers) {
  return rouge_against(text_field(doc, "summary"), answers.at(0));
}

}  // namespace stoa::eval
