// What the observers of a run are reported its steps: times and rates since the last logged step.
#pragma once

#include <cstdint>
#include <optional>

#include "run/training_rank.h"
#include "train/loss_pass.h"
#include "train/trainer_parts.h"

namespace stoa::train {

class StepReports {
 public:
  // `gemm_tflops`: the machine's measured GEMM rate, 0 if unknown. `skipped_steps`: those before a resume.
  StepReports(const TrainerParts& parts, double gemm_tflops, std::int64_t skipped_steps);

  // Reports the step that was just done to the observers. `progress` includes the step; `tokens` and
  // `seconds` are its own, `seconds` with the wait for data. NumericsError when the losses of ten steps in a
  // row were not finite. `measure`: loss and scores of an objective that compares answers. `divergence`: of a
  // distillation (run::TrainingRank).
  void report(const Progress& progress, const run::StepScalars& scalars, std::int64_t tokens, double seconds,
              double data_seconds, const std::optional<LossPass::Measure>& measure = {},
              std::optional<double> divergence = {});
  // Seconds that saving a checkpoint delayed the steps.
  void add_save(double seconds) { save_seconds_ += seconds; }
  std::int64_t skipped_steps() const { return skipped_steps_; }

 private:
  const TrainerParts& parts_;
  const double gemm_tflops_;
  const double flops_per_token_;  // of the model: it is counted by building its layers
  std::int64_t skipped_steps_;
  std::int64_t bad_losses_ = 0;  // in a row
  // Since the last logged step.
  double seconds_ = 0, data_seconds_ = 0, save_seconds_ = 0;
  std::int64_t steps_ = 0, tokens_ = 0;
};

// Most bytes that this process had in memory so far.
std::int64_t peak_resident_bytes();

}  // namespace stoa::train
