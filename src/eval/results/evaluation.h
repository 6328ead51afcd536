// A whole evaluation: tasks asked of a model, scored, in the form of lm-evaluation-harness's result files.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/metrics/aggregate.h"
#include "eval/requests/scorer.h"
#include "eval/tasks/task_index.h"

namespace stoa::eval {

struct EvaluationOptions {
  std::optional<std::int64_t> num_fewshot;  // none: each task's own
  std::optional<double> limit;              // documents of each task; below 1: a share
  std::uint64_t fewshot_seed = 1234, sampling_seed = 1234;
  bool chat = false, multiturn = true;
  std::string system;
  Json generation = Json::object();  // --gen_kwargs
  std::int64_t bootstrap_draws = 100'000;
  int threads = 1;
  ScoringOptions scoring;
  std::vector<fs::path> data;
  fs::path journal;  // answers so far, from which a killed evaluation continues; "": none
};

struct MetricResult {
  std::string name, filter;
  Aggregated result;
};
struct TaskResult {
  TaskConfig config;
  std::int64_t shots = 0, documents = 0, all_documents = 0;
  std::vector<MetricResult> metrics;
  std::vector<Json> samples;  // as in samples_*.jsonl
};
struct GroupResult {
  Selection::Group group;
  std::int64_t documents = 0;
  std::vector<MetricResult> metrics;
};
struct Evaluation {
  std::vector<TaskResult> tasks;
  std::vector<GroupResult> groups;
  std::size_t requests = 0, resumed = 0, truncated = 0;
  std::int64_t window = 0;
  std::string dtype;
  double first_answer_seconds = 0;  // from the start of evaluate()
};

// A task with its documents and what a model is asked about them.
struct PreparedTask {
  Task task;
  std::int64_t shots = 0;
  std::size_t limit = 0;  // documents
  std::vector<Request> requests;
  Json generation;
};
// `chat`: as PromptOptions'.
PreparedTask prepare_task(const TaskConfig& config, const EvaluationOptions& options,
                          const std::function<std::string(const Json&, bool)>& chat = nullptr);
// `answers`: of every request, `repeats` each, in order.
TaskResult score_task(const PreparedTask& prepared, std::span<const Answer> answers,
                      const EvaluationOptions& options);

// `progress`: share of the work that is done.
Evaluation evaluate(infer::OpenModel& model, const Selection& selection, const EvaluationOptions& options,
                    const std::function<void(double)>& progress);

}  // namespace stoa::eval
