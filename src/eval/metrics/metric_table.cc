#include "eval/metrics/metric_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::eval {
namespace {

const std::vector<MetricFacts>& metric_table() {
  using enum OutputType;
  static const std::vector<MetricFacts> table{
      {"acc", "mean", true, {kLoglikelihood, kMultipleChoice}},
      {"acc_norm", "mean", true, {kMultipleChoice}},
      {"acc_bytes", "mean", true, {kMultipleChoice}},
      {"acc_mutual_info", "mean", true, {kMultipleChoice}},
      {"exact_match", "mean", true, {kMultipleChoice, kGenerateUntil}},
      {"f1", "f1", true, {kMultipleChoice}},
      {"mcc", "matthews_corrcoef", true, {kMultipleChoice}},
      {"brier_score", "brier_score", false, {kMultipleChoice}},
      {"perplexity", "perplexity", false, {kLoglikelihood}},
      {"word_perplexity", "weighted_perplexity", false, {kLoglikelihoodRolling}},
      {"byte_perplexity", "weighted_perplexity", false, {kLoglikelihoodRolling}},
      {"bits_per_byte", "bits_per_byte", false, {kLoglikelihoodRolling}},
      {"bleu", "bleu", true, {kGenerateUntil}},
      {"chrf", "chrf", true, {kGenerateUntil}},
      {"chrf++", "chrf++", true, {kGenerateUntil}},
      {"ter", "ter", false, {kGenerateUntil}},
  };
  return table;
}

const std::vector<std::string> kAggregations{"mean",
                                             "median",
                                             "nanmean",
                                             "perplexity",
                                             "weighted_perplexity",
                                             "bits_per_byte",
                                             "f1",
                                             "matthews_corrcoef",
                                             "brier_score",
                                             "bleu",
                                             "chrf",
                                             "chrf++",
                                             "ter"};

}  // namespace

bool MetricFacts::applies_to(OutputType type) const {
  return std::find(outputs.begin(), outputs.end(), type) != outputs.end();
}

const MetricFacts* find_metric(std::string_view name) {
  const auto& table = metric_table();
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const MetricFacts& m) { return m.name == name; });
  return it == table.end() ? nullptr : &*it;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> out;
  for (const auto& m : metric_table()) out.emplace_back(m.name);
  return out;
}

bool is_aggregation(std::string_view name) {
  return std::find(kAggregations.begin(), kAggregations.end(), name) != kAggregations.end();
}

std::vector<std::string> aggregation_names() { return kAggregations; }

std::vector<const char*> default_metrics(OutputType type) {
  switch (type) {
    case OutputType::kLoglikelihood:
      return {"perplexity", "acc"};
    case OutputType::kLoglikelihoodRolling:
      return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    case OutputType::kMultipleChoice:
      return {"acc", "acc_norm"};
    case OutputType::kGenerateUntil:
      return {"exact_match"};
  }
  return {};
}

MetricSpec default_spec(std::string_view metric) {
  const MetricFacts* facts = find_metric(metric);
  return {std::string(metric), facts->aggregation, facts->higher_is_better, Json::object()};
}

void check_metric_arguments(const MetricSpec& spec, const std::string& source) {
  static const std::vector<std::string> kFlags{"ignore_case", "ignore_punctuation", "ignore_numbers"};
  std::vector<std::string> known;
  if (spec.name == "exact_match") known = kFlags, known.emplace_back("regexes_to_ignore");
  for (const auto& [key, value] : spec.arguments.items()) {
    require<ConfigError>(std::find(known.begin(), known.end(), key) != known.end(),
                         "{}: metric_list: '{}' takes no '{}'{}", source, spec.name, key,
                         did_you_mean(key, known));
    const bool fits = key == "regexes_to_ignore" ? value.is_array() || value.is_null() : value.is_boolean();
    require<ConfigError>(fits, "{}: metric_list: '{}' of '{}' cannot be {}", source, key, spec.name,
                         dumped(value));
  }
}

}  // namespace stoa::eval
