// Benchmark tasks during a run (trainer.eval_tasks): the data-parallel ranks divide the documents, each asks
// its own copy of the model. Every rank calls the same in the same order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/requests/encoded_requests.h"
#include "run/training_rank.h"
#include "train/trainer_parts.h"

namespace stoa::train {

// The names of a figure: "piqa/acc", "gsm8k/exact_match,strict-match".
std::string figure_name(const std::string& task, const eval::MetricResult& metric);
// Whether more of the figure of this name is better. ConfigError: it is val_loss or none of the tasks'.
bool rises(const eval::PreparedEvaluation& tasks, const std::string& figure);

class TaskEvaluation {
 public:
  // Asks parts.tasks; `rank` has memory for passes.
  TaskEvaluation(const TrainerParts& parts, run::TrainingRank& rank);

  // On rank 0; nothing on the others, or when the run was asked to stop meanwhile. NumericsError: the model's
  // answers are not numbers.
  std::optional<watch::TaskReport> run(const Progress& progress);
  // Figures of the newest evaluation, if it was of this step's weights; else none.
  std::vector<watch::TaskFigure> figures_of(std::int64_t step) const;

 private:
  const TrainerParts& parts_;
  run::TrainingRank& rank_;
  const eval::PreparedEvaluation& tasks_;
  const eval::Division division_;
  std::vector<std::size_t> own_;                  // requests of this rank
  std::optional<eval::EncodedRequests> encoded_;  // they, from the first evaluation on
  std::vector<std::int32_t> ends_;
  std::vector<watch::TaskFigure> figures_;
  std::int64_t step_ = -1;  // of figures_
};

}  // namespace stoa::train
