// Answers found in a text: DROP (Dua et al. 2019) and SQuAD 2 (Rajpurkar et al. 2018).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "eval/python/text.h"

namespace stoa::eval {

// All gold answers of a document in `answers`, each a list of spans.
Json drop_document(const Json& doc);
// {"em": 0 or 1, "f1": to two decimals}: the best over the gold answers.
Json drop_results(const Json& doc, const Json& answers);

// An answer without case, punctuation, articles and needless spaces; F1 of the words of two answers.
std::string squad_normal_form(const std::string& text);
double squad_f1(const std::string& gold, const std::string& answer);

// Figures of SQuAD 2's official evaluation: HasAns_ and NoAns_ are of the questions that the text answers and
// of the others, best_ has the best threshold for giving no answer.
inline constexpr std::array<const char*, 8> kSquadFigures{
    "exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1", "best_exact", "best_f1"};
// `answers`: the text, [log-likelihood of " unanswerable", greedy]. Every metric is the same pair of what was
// predicted and the gold answers, for squad_figure.
Json squad_results(const Json& doc, const Json& answers);
// One of kSquadFigures in percent; 0 where no question is of its kind.
double squad_figure(std::string_view name, const std::vector<Json>& pairs);

}  // namespace stoa::eval
