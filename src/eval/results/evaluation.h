// A whole evaluation: tasks asked of a model, scored, in the form of lm-evaluation-harness's result files.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/contamination/contamination.h"
#include "eval/metrics/aggregate.h"
#include "eval/requests/answerer.h"
#include "eval/results/division.h"
#include "eval/ruler/making.h"
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
  // Folders of data, and what documents that are made or shuffled depend on.
  MakingOptions making;
  // What of the documents the training corpus holds: there are figures without them, too.
  std::optional<Contamination> contamination;
  fs::path journal;  // folder of answers so far, from which a killed evaluation continues; "": none
};

struct MetricResult {
  std::string name, filter;  // with the ending "_clean": of documents that the training corpus does not hold
  Aggregated result;
};
struct TaskResult {
  TaskConfig config;
  std::int64_t shots = 0, documents = 0, all_documents = 0;
  std::optional<std::int64_t> clean_documents;  // that the training corpus does not hold
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
  std::int64_t window = 0;          // tokens; 0: not known
  std::string dtype;                // "": not known
  double first_answer_seconds = 0;  // from the start of evaluate()
};

// A task with its documents and what a model is asked about them.
struct PreparedTask {
  Task task;
  std::int64_t shots = 0;
  std::size_t limit = 0;  // documents
  std::vector<Request> requests;
  Json generation;
  std::vector<bool>
      in_corpus;  // of each document up to `limit`; where EvaluationOptions::contamination is given
};
PreparedTask prepare_task(const TaskConfig& config, const EvaluationOptions& options,
                          const ChatFunction& chat = nullptr);
// `answers`: of every request, `repeats` each, in order.
TaskResult score_task(const PreparedTask& prepared, std::span<const Answer> answers,
                      const EvaluationOptions& options);

// Tasks with their documents, the requests of all of them together, and what answers come to.
class PreparedEvaluation {
 public:
  // Reads the documents. DataError: as load_task, make_requests and generation_options.
  PreparedEvaluation(const Selection& selection, EvaluationOptions options, const ChatFunction& chat);
  PreparedEvaluation(const PreparedEvaluation&) = delete;
  PreparedEvaluation& operator=(const PreparedEvaluation&) = delete;

  // Each as often as its task repeats it; how answers to it are generated, or null.
  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<const infer::GenerateOptions*>& generation() const { return generation_; }
  const EvaluationOptions& options() const { return options_; }
  const std::vector<PreparedTask>& tasks() const { return tasks_; }
  const std::vector<Selection::Group>& groups() const { return groups_; }
  // Results of tasks and groups. `answered`: all requests, in any order.
  void score(const AnsweredPart& answered, Evaluation& into) const;

 private:
  const EvaluationOptions options_;
  std::vector<PreparedTask> tasks_;
  const std::vector<Selection::Group> groups_;
  std::vector<Request> requests_;
  std::vector<infer::GenerateOptions> options_of_task_;
  std::vector<const infer::GenerateOptions*> generation_;
  std::vector<std::size_t> begins_;  // of each task's requests, and their end
};

// NumericsError: its log-likelihood is none.
void require_number(const Answer& answer);

// `progress`: share of the work that is done. Every rank of `division` calls it with an answerer of its own;
// only the first has results.
Evaluation evaluate(Answerer& answerer, const Selection& selection, const EvaluationOptions& options,
                    const Division& division, const std::function<void(double)>& progress);

}  // namespace stoa::eval
