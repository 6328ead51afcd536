// Tasks in many languages: XCOPA (Ponti et al. 2020), XQuAD (Artetxe et al. 2020).
#pragma once

#include <map>
#include <string>

#include "eval/tasks/functions.h"

namespace stoa::eval {

// "xcopa.doc_to_text_et" … and "xcopa.doc_to_choice".
const std::map<std::string, DocFunction>& xcopa_functions();
// {"f1", "exact_match"} of the first gold answer.
Json xquad_results(const Json& doc, const Json& answers);

}  // namespace stoa::eval
