// Answers of an evaluation, read back from samples_TASK_TIME.jsonl: written here or by lm-evaluation-harness.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::eval {

// What an evaluation said of one document through one filter.
struct SampledDocument {
  std::int64_t id = 0;
  std::string hash;                       // of the document; "" if the file has none
  std::map<std::string, double> metrics;  // those that are one number
  std::vector<double> choices;            // log-likelihoods of several continuations
  std::string prompt, target, answer;     // the answer: the choice of the highest score, or the text
};

// Documents of a task by filter, then by their number.
using SampledTask = std::map<std::string, std::map<std::int64_t, SampledDocument>>;

struct SampledRun {
  std::map<std::string, SampledTask> tasks;
  std::map<std::string, std::vector<std::string>>
      groups;  // with metrics of their own: tasks in and below them
};

// The newest samples of each task in `folder` and the folders in it, and the groups of the newest
// results_*.json. IoError: no such folder, or no samples in it. DataError names the file and line that is not
// a sample.
SampledRun read_samples(const fs::path& folder);

}  // namespace stoa::eval
