// An objective that compares answers (tune/objective.h), in a run: the pass of losses that comes before each
// training pass, and the reference's log-probabilities, which are computed once, at the start, and kept in
// the run directory. Every rank calls the same in the same order.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "run/training_rank.h"
#include "train/loss_pass.h"
#include "train/regression_sums.h"
#include "tune/chat_dataset.h"
#include "tune/objective.h"

namespace stoa::train {

class ObjectivePass final : public LossPass {
 public:
  struct Data {
    const tune::ChatDataset* training = nullptr;
    const tune::ChatDataset* validation = nullptr;  // may be null
    std::vector<std::string> sources = {};          // what they were read from
  };
  // All must outlive this.
  ObjectivePass(run::TrainingRank& rank, const tune::ObjectiveConfig& objective, Data data);

  // The reference's log-probabilities: those of the model at the start of the run, or those that the run
  // directory holds. False: asked to stop. DataError: a run that resumes without them, or with other data.
  bool refer(const std::filesystem::path& directory, bool resumed,
             const std::function<bool()>& asked_to_stop);

  // Writes the weight of every token of the rows; the step divides by the number of pairs.
  Measure weigh(data::Batch& batch) override;
  void add(const data::Batch& batch) override;
  Measure take() override;

 private:
  // Log-probabilities of a sample: of its text, and of its second text.
  using Pair = std::array<double, 2>;
  struct Answer {  // in this rank's rows
    std::size_t row;
    tune::RowText place;
    tune::AnswerScore score;
  };
  struct Sums {
    double loss = 0, units = 0, right = 0, reward_first = 0, reward_second = 0, first = 0, second = 0,
           log_first = 0, log_second = 0, drift = 0;
    RegressionSums numbers;
    std::span<double> all() { return {&loss, 17}; }
  };
  enum Split : std::size_t { kTraining, kValidation };

  // With their scores: on ranks that have the head, else zero.
  std::vector<Answer> answers_of(const data::Batch& batch, const tune::ChatDataset& data);
  std::vector<Pair> compute_reference(const tune::ChatDataset& data, const std::function<bool()>& stop);
  // Calls set(answer, derivative) for every answer; returns this rank's sums.
  Sums judge(const std::vector<Answer>& answers, Split split,
             const std::function<void(const Answer&, double)>& set);
  void judge_pairs(const std::vector<Answer>& answers, Split split,
                   const std::function<void(const Answer&, double)>& set, Sums& sums) const;
  void judge_scores(const std::vector<Answer>& answers, Split split,
                    const std::function<void(const Answer&, double)>& set, Sums& sums) const;
  double drift_of(const std::vector<Answer>& answers, Split split);
  Measure measure_of(Sums sums);
  bool desirable(const Answer& answer, Split split) const;
  const Pair& reference(const Answer& answer, Split split) const;

  run::TrainingRank& rank_;
  const tune::ObjectiveConfig& objective_;
  const std::array<const tune::ChatDataset*, 2> data_;  // by Split
  const std::vector<std::string> sources_;
  std::array<std::vector<Pair>, 2> reference_;  // by sample
  std::vector<double> losses_;                  // of the tokens of a batch
  bool has_head_ = false;                       // this rank has seen losses
  Sums validation_;
};

}  // namespace stoa::train
