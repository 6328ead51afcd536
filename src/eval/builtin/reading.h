// Answers found in a text: DROP (Dua et al. 2019) and SQuAD 2 (Rajpurkar et al. 2018).
#pragma once

#include <vector>

#include "eval/python/text.h"

namespace stoa::eval {

// All gold answers of a document in `answers`, each a list of spans.
Json drop_document(const Json& doc);
// {"em": 0 or 1, "f1": to two decimals}: the best over the gold answers.
Json drop_results(const Json& doc, const Json& answers);

// `answers`: the text, [log-likelihood of " unanswerable", greedy]. Every metric is the same pair of what was
// predicted and the gold answers, for squad_figure.
Json squad_results(const Json& doc, const Json& answers);
// A figure of SQuAD 2's official evaluation in percent: exact, f1, these with HasAns_ or NoAns_ before them
// (0 where no question is of the kind), best_exact, best_f1 (with the best threshold for giving no answer).
double squad_figure(std::string_view name, const std::vector<Json>& pairs);

}  // namespace stoa::eval
