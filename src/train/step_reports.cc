#include "train/step_reports.h"

#include <sys/resource.h>

#include <cmath>

#include "train/distill_scores.h"
#include "train/step_flops.h"

namespace stoa::train {

StepReports::StepReports(const TrainerParts& parts, double gemm_tflops, std::int64_t skipped_steps)
    : parts_(parts),
      gemm_tflops_(gemm_tflops),
      flops_per_token_(model_flops_per_token(parts.plan().options.model, parts.plan().options.length)),
      skipped_steps_(skipped_steps) {}

void StepReports::report(const Progress& progress, const run::StepScalars& scalars, std::int64_t tokens,
                         double seconds, double data_seconds, const std::optional<LossPass::Measure>& measure,
                         std::optional<double> divergence) {
  seconds_ += seconds;
  data_seconds_ += data_seconds;
  tokens_ += tokens;
  ++steps_;
  using ops::StepSlot;
  const TrainingPlan& plan = parts_.plan();
  const std::int64_t every = parts_.config.trainer.log_every_n_steps;
  watch::StepReport report;
  report.step = progress.step;
  report.samples = progress.samples;
  report.tokens = progress.tokens;
  report.loss =
      scalars[StepSlot::kTokens] > 0 ? scalars[StepSlot::kLossSum] / scalars[StepSlot::kTokens] : NAN;
  if (measure) {
    report.loss = measure->loss;
    report.scores = measure->scores;
  }
  if (divergence)
    report.scores = distillation_scores(parts_.config.distill, *divergence, scalars[StepSlot::kLossSum],
                                        scalars[StepSlot::kTokens]);
  report.learning_rate = scalars[StepSlot::kLearningRate];
  report.gradient_norm = scalars[StepSlot::kGradNorm];
  report.loss_scale = scalars[StepSlot::kLossScale];
  report.skipped = scalars[StepSlot::kFoundInf] != 0;
  report.skipped_steps = static_cast<std::int64_t>(scalars[StepSlot::kSkipped]);
  skipped_steps_ = report.skipped_steps;
  report.logged =
      (every > 0 && progress.step % every == 0) || progress.step == plan.steps || progress.step == 1;
  const auto n = static_cast<double>(steps_);
  report.step_seconds = seconds_ / n;
  report.data_seconds = data_seconds_ / n;
  report.save_seconds = save_seconds_ / n;
  report.compute_seconds = report.step_seconds - report.data_seconds;
  report.tokens_per_second = static_cast<double>(tokens_) / seconds_;
  report.model_tflops = flops_per_token_ * report.tokens_per_second * 1e-12;
  report.mfu = gemm_tflops_ > 0 ? report.model_tflops / gemm_tflops_ : 0;
  report.peak_memory_bytes = peak_resident_bytes();
  for (auto* observer : parts_.observers) observer->on_step(report);
  if (report.logged) {
    seconds_ = data_seconds_ = save_seconds_ = 0;
    steps_ = tokens_ = 0;
  }
  bad_losses_ = std::isfinite(report.loss) || scalars[StepSlot::kTokens] == 0 ? 0 : bad_losses_ + 1;
  require<NumericsError>(
      bad_losses_ < 10,
      "the loss has not been finite for {} steps (since step {}): they made no update. Lower the "
      "learning rate ({}), or resume from an earlier checkpoint",
      bad_losses_, progress.step - bad_losses_ + 1, report.learning_rate);
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace stoa::train
