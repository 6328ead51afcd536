// Validation during a run: the loss on held-out data, and texts that the model draws. Every rank calls the
// same in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/batch.h"
#include "run/training_rank.h"
#include "train/kept_logits.h"
#include "train/loss_pass.h"
#include "train/trainer_parts.h"

namespace stoa::train {

struct ValidationLosses {
  std::optional<double> last, best;
};

class Validation {
 public:
  // `best`: of the run that this one resumes from. `objective`: if it compares answers; `kept`: if the run is
  // taught by it; else null.
  Validation(const TrainerParts& parts, run::TrainingRank& rank, std::optional<double> best,
             LossPass* objective = nullptr, const KeptLogits* kept = nullptr);

  // Nothing without validation data, or when `asked_to_stop` ended it. All ranks must get the same answer
  // from `asked_to_stop`.
  std::optional<watch::ValidationReport> run(const Progress& progress,
                                             const std::function<bool()>& asked_to_stop);
  const ValidationLosses& losses() const { return losses_; }
  // Generates a text per prompt of trainer.sample_prompts, on rank 0 and on the other ranks of its context
  // group.
  void draw_samples(std::int64_t step);

 private:
  void fill(std::int64_t first_row, std::int64_t rows);

  const TrainerParts& parts_;
  run::TrainingRank& rank_;
  LossPass* const objective_;
  const KeptLogits* const kept_;
  const data::Dataset* data_;                // may be null
  data::Batch batch_;                        // its memory is kept
  std::optional<double> tokens_per_sample_;  // of masked batches; the same at every validation
  ValidationLosses losses_;
};

}  // namespace stoa::train
