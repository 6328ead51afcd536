// Metrics of a task from those of its documents, with standard errors (lm_eval/api/metrics.py).
#pragma once

#include <optional>
#include <vector>

#include "eval/python/text.h"

namespace stoa::eval {

struct Aggregated {
  double value = 0;
  std::optional<double> standard_error;  // none: the harness has none ("N/A")
};

// `values`: of the documents in order, as document_metrics returns them. `draws`: of bootstraps; `threads`
// share them. DataError: values that the aggregation does not take.
Aggregated aggregate(const std::string& aggregation, const std::vector<Json>& values, std::int64_t draws,
                     int threads);

// A group from its tasks: values, standard errors and numbers of documents.
struct PartOfGroup {
  double value = 0;
  std::optional<double> standard_error;
  std::int64_t documents = 0;
};
Aggregated aggregate_group(const std::vector<PartOfGroup>& parts, bool weight_by_size);

}  // namespace stoa::eval
