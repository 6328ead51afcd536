// One rank of a training run, from a configuration to its end: its steps, and when validation and checkpoints
// come between them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "data/prefetch.h"
#include "run/training_rank.h"
#include "train/adapter_run.h"
#include "train/kept_logits.h"
#include "train/loss_pass.h"
#include "train/run_checkpoints.h"
#include "train/run_directory.h"
#include "train/run_start.h"
#include "train/step_reports.h"
#include "train/task_evaluation.h"
#include "train/trainer_parts.h"
#include "train/validation.h"

namespace stoa::train {

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();

  // Trains to the end, to trainer.max_time or to a signal. Saves a checkpoint at the end of either, except
  // where no step was done. Errors are thrown after the observers heard of them.
  watch::RunFinish run();

 private:
  using Clock = std::chrono::steady_clock;

  // What all ranks agree on before a step: valid tokens of the global batch, whether any rank is asked to
  // stop, whether the time is up, how many ranks have written their part of the current checkpoint, and
  // whether the next one is due by time.
  struct Agreement {
    std::int64_t tokens = 0, stop = 0, time = 0, written = 0, save = 0;
  };

  bool set_up();                               // false: asked to stop
  std::unique_ptr<LossPass> make_objective();  // none: asked to stop
  void start_prefetch();
  void loop(watch::RunFinish& finish);
  Agreement agree(std::int64_t own_tokens);
  bool asked_to_stop();  // any rank
  void train_step(data::Batch& batch, double data_seconds);
  void validate();
  void ask_tasks();
  void save(bool wait);
  void close(watch::RunFinish& finish) const;
  void write_trace();
  std::unique_ptr<run::StepDump> dump_of_step(std::int64_t rows);  // none: this step is not dumped
  bool first() const { return parts_.seat.first(); }
  bool due(std::int64_t every) const { return every > 0 && done_.step % every == 0; }

  const TrainerParts parts_;
  const RunConfig& config_;
  const TrainingPlan& plan_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<infer::Machine> machine_;
  std::unique_ptr<run::TrainingRank> rank_;
  RunBeginning beginning_;
  std::optional<RunCheckpoints> checkpoints_;
  std::unique_ptr<LossPass> objective_;    // one that compares texts
  std::optional<KeptLogits> kept_logits_;  // of a teacher that is not run
  std::optional<Validation> validation_;
  std::optional<TaskEvaluation> tasks_;  // of trainer.eval_tasks
  std::optional<BaseGuard> guard_;       // of adapters
  std::optional<StepReports> reports_;
  std::unique_ptr<data::Prefetcher> prefetch_;
  data::Batch* next_batch_ = nullptr;  // read ahead of the first step
  std::unique_ptr<ckpt::DumpWriter> dump_;
  std::unique_ptr<run::TraceRecorder> trace_;  // of the traced steps so far

  Progress done_;
  std::int64_t saved_step_ = -1;
  bool announced_ = false;  // observers know of the run
  Clock::time_point start_, saved_at_;
};

}  // namespace stoa::train
