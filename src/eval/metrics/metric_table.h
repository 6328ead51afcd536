// The metrics and aggregations of lm-evaluation-harness by name (lm_eval/api/metrics.py).
#pragma once

#include <string>
#include <vector>

#include "eval/tasks/task_config.h"

namespace stoa::eval {

struct MetricFacts {
  const char* name;
  const char* aggregation;
  bool higher_is_better;
  std::vector<OutputType> outputs;
  bool applies_to(OutputType type) const;
};

const MetricFacts* find_metric(std::string_view name);  // or none
std::vector<std::string> metric_names();
bool is_aggregation(std::string_view name);
std::vector<std::string> aggregation_names();
std::vector<const char*> default_metrics(OutputType type);
MetricSpec default_spec(std::string_view metric);
// ConfigError: an argument that the metric does not take, or of another type.
void check_metric_arguments(const MetricSpec& spec, const std::string& source);

}  // namespace stoa::eval
