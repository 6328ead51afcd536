// What a task's YAML says, with the names and defaults of lm-evaluation-harness (lm_eval, TaskConfig).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/tasks/functions.h"
#include "eval/tasks/task_yaml.h"

namespace stoa::eval {

enum class OutputType { kLoglikelihood, kLoglikelihoodRolling, kMultipleChoice, kGenerateUntil };
const char* output_name(OutputType type);

struct MetricSpec {
  std::string name, aggregation;
  bool higher_is_better = true;
  Json arguments = Json::object();    // of exact_match and its like
  MetricFunction function = nullptr;  // a built-in one of the task, else null
};
struct FilterStep {
  std::string function;
  Json arguments = Json::object();
  FilterFunction custom = nullptr;  // of the step `custom`
};
struct FilterSpec {
  std::string name;
  std::vector<FilterStep> steps;
};

// Texts, fields, numbers and lists as written (null: not given), or functions (is_function).
struct DocFields {
  Json text, target, choice, prefix;
};

struct TaskConfig {
  std::string name, alias, source;  // source: the file
  std::vector<std::string> tags;
  std::string dataset_path, dataset_name;  // "" : none
  Json dataset_kwargs = Json::object();
  std::string maker;  // of documents that are made, not loaded (custom_dataset); "": none
  std::optional<std::string> training_split, validation_split, test_split;
  DocFields fields;
  Json process_docs, process_results;
  std::string description, target_delimiter = " ", fewshot_delimiter = "\n\n";
  struct Shots {
    bool first_n = false;  // sampler
    std::optional<std::string> split;
    Json samples;             // a list of documents
    DocFields fields;         // with the task's own where nothing else is given
    bool own_choice = false;  // choices of shots are asked for
    Json process_docs;
    std::string target_delimiter, fewshot_delimiter;
    std::vector<std::size_t> indices;
  } shots;
  std::optional<std::int64_t> num_fewshot;
  OutputType output = OutputType::kGenerateUntil;
  std::vector<MetricSpec> metrics;
  std::vector<FilterSpec> filters;
  Json generation = Json::object();
  // A continuation whose log-likelihood is asked for in addition to the answer; "": none.
  std::string also_scored;
  std::int64_t repeats = 1;
  bool runs_code = false;  // unsafe_code: programs that the model writes
  Json version;            // metadata.version; null: none
  Json as_written;         // all keys, functions as their names: for results_*.json

  const MetricSpec* metric(std::string_view name) const;
  // test, else validation. ConfigError: neither.
  const std::string& evaluated_split() const;
};

// `yaml`: of read_task_yaml, a task's. ConfigError names an unknown key with the nearest known one, a value
// that cannot be, and what is known but not supported (Python classes, images …).
TaskConfig make_task_config(const Json& yaml, const std::string& source);

}  // namespace stoa::eval
