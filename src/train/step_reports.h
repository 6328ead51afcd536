// What the observers of a run are reported its steps: times and rates since the last logged step.
#pragma once

#include <cstdint>

#include "run/training_rank.h"
#include "train/trainer_parts.h"

namespace stoa::train {

class StepReports {
 public:
  // `gemm_tflops`: of this machine, measured; 0: not. `skipped_steps`: of the run that this one resumes from.
  StepReports(const TrainerParts& parts, double gemm_tflops, std::int64_t skipped_steps);

  // Tells the observers of the step that was just done. `progress`: with it; `tokens`: of it; `seconds`: from
  // the wait for its data to its end. NumericsError where the losses of ten steps in a row were not finite.
  void report(const Progress& progress, const run::StepScalars& scalars, std::int64_t tokens, double seconds,
              double data_seconds);
  // Seconds that a checkpoint held up the steps.
  void add_save(double seconds) { save_seconds_ += seconds; }
  std::int64_t skipped_steps() const { return skipped_steps_; }

 private:
  const TrainerParts& parts_;
  const double gemm_tflops_;
  std::int64_t skipped_steps_;
  std::int64_t bad_losses_ = 0;  // in a row
  // Since the last logged step.
  double seconds_ = 0, data_seconds_ = 0, save_seconds_ = 0;
  std::int64_t steps_ = 0, tokens_ = 0;
};

// Most bytes that this process had in memory so far.
std::int64_t peak_resident_bytes();

}  // namespace stoa::train
