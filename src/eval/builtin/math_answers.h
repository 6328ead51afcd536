// MATH (Hendrycks et al. 2021): answers in LaTeX are the same if they are after a row of replacements.
#pragma once

#include <string>

#include "eval/python/text.h"

namespace stoa::eval {

// The content of the last \boxed of a solution. DataError: it has none.
std::string boxed_answer(const std::string& solution);
// The content of the last \boxed of `solution` in `answer`.
Json math_document(const Json& doc);
// {"exact_match": 0 or 1}; of an answer with several $ what stands between the first and the last.
Json math_results(const Json& doc, const Json& answers);

}  // namespace stoa::eval
