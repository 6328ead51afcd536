// What a document contributes to each metric (lm_eval/api/task.py, process_results).
#pragma once

#include <vector>

#include "eval/requests/request.h"

namespace stoa::eval {

// `answers`: of the document's requests in order. `filtered`: of a generated answer; unused otherwise. A
// number by metric, or [gold, prediction], [log-likelihood, count]. DataError: no gold answer; NumericsError:
// an answer that is not a number.
Json document_metrics(const Task& task, const Json& document, const std::vector<Answer>& answers,
                      const Json& filtered);

}  // namespace stoa::eval
