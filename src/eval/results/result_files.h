// Evaluations as files and tables in the form of lm-evaluation-harness.
#pragma once

#include "eval/results/evaluation.h"

namespace stoa::eval {

// How the evaluation was made, for results_*.json.
struct ResultContext {
  std::string model;  // as given
  Json config;        // limit, seeds, gen_kwargs …
  std::string system, chat_template;
  bool multiturn = true;
  double start = 0, seconds = 0;  // Unix time; duration
};

// The content of results_*.json.
Json results_json(const Evaluation& evaluation, const ResultContext& context);
// The table that is printed: tasks (and groups), then groups.
std::string results_table(const Evaluation& evaluation);
// Writes DIRECTORY/MODEL/results_TIME.json and, if `samples`, samples_TASK_TIME.jsonl; returns the former.
fs::path write_results(const fs::path& directory, const Evaluation& evaluation, const ResultContext& context,
                       bool samples);
// The folder of a model's results in `directory`.
fs::path results_folder(const fs::path& directory, const std::string& model);

}  // namespace stoa::eval
