// One rank of a training run, from a configuration to its end: data, resuming, steps, validation,
// checkpoints. What people see of it is told to observers, by the first rank.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/checkpoint_writer.h"
#include "data/prefetch.h"
#include "run/rank_checkpoint.h"
#include "run/training_rank.h"
#include "token/tokenizer.h"
#include "train/launch.h"
#include "train/run_config.h"
#include "train/training_data.h"
#include "watch/run_observer.h"

namespace stoa::train {

struct TrainerParts {
  RunConfig config;
  std::string config_yaml;  // resolved
  std::string preset;       // see watch::RunStart
  std::vector<watch::ConfigChange> changes;
  std::shared_ptr<const RunInputs> inputs;
  Seat seat;
  std::function<run::Machine()> make_machine;
  std::function<run::Machine(const run::Machine&)> make_meta_machine;
  Console& console;
  std::vector<watch::RunObserver*> observers;  // of the first rank
  std::stop_token stop;                        // SIGINT or SIGTERM: save and end
  std::vector<std::string> command;
  std::string version, commit;
  // Tensors of these steps are written to a directory (docs/tensor-dumps.md).
  struct Dump {
    std::vector<std::int64_t> steps;
    fs::path directory;
    std::vector<std::string> only;  // names with * and ?; empty: all
  };
  Dump dump{};
  // Ends after this step as a signal would; schedules stay those of the whole run.
  std::optional<std::int64_t> stop_after{};
  // Called on every rank when all is set up: from here on a stop is followed by a save.
  std::function<void()> on_training = [] {};
  std::chrono::system_clock::time_point began = std::chrono::system_clock::now();  // of the process
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();

  // Trains to the end, to trainer.max_time or to a signal. Saves a checkpoint at the end of either, except
  // where no step was done. Errors are thrown after the observers heard of them.
  watch::RunFinish run();

 private:
  using Clock = std::chrono::steady_clock;

  // What all ranks know before a step: valid tokens of the global batch, whether any rank is asked to stop,
  // whether the time is up, how many ranks have written their part of the checkpoint under way, and whether
  // the next one is due by the clock.
  struct Agreement {
    std::int64_t tokens = 0, stop = 0, time = 0, written = 0, save = 0;
  };

  bool set_up();  // false: asked to stop
  void make_directory();
  void discard_directory() noexcept;
  void start_or_resume();
  void announce();
  void loop(watch::RunFinish& finish);
  Agreement agree(std::int64_t own_tokens);
  bool asked_to_stop();  // any rank
  void add_over_ranks(std::span<double> values, parallel::Group group);
  void train_step(const data::Batch& batch, double data_seconds);
  void report_step(double seconds, double data_seconds);
  void validate();
  void draw_samples();
  void save(bool wait);
  void save_part(const ckpt::TrainingState& state);
  void commit_parts();
  void finish_checkpoint();  // the one under way, on all ranks
  bool first() const { return parts_.seat.first(); }
  void write_trace();
  std::unique_ptr<run::StepDump> dump_of_step(std::int64_t rows);  // none: this step is not dumped
  bool due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  TrainerParts parts_;
  const RunConfig& config_;
  fs::path directory_;
  fs::path made_;  // the highest directory that this process made for it, or ""
  const token::Tokenizer* tokenizer_ = nullptr;
  const TrainingPlan* plan_ = nullptr;
  std::unique_ptr<run::Machine> machine_;
  std::unique_ptr<run::TrainingRank> rank_;
  std::unique_ptr<ckpt::CheckpointWriter> checkpoints_;  // of the first rank
  // A checkpoint of several ranks that is being written.
  std::unique_ptr<ckpt::JointPart> part_;
  ckpt::TrainingState part_state_;
  fs::path part_directory_;
  std::unique_ptr<data::Prefetcher> prefetch_;
  data::Batch* next_batch_ = nullptr;                   // read ahead of the first step
  run::ModelTextFiles tokenizer_files_;                 // and generation_config.json
  std::optional<std::filesystem::path> start_model_;    // whose weights, or whose run, this one goes on from
  data::Batch validation_batch_;                        // its memory is kept
  std::optional<double> validation_tokens_per_sample_;  // of masked batches; the same at every validation
  std::unique_ptr<ckpt::DumpWriter> dump_;
  std::unique_ptr<run::TraceRecorder> trace_;  // of the traced steps so far

  std::int64_t step_ = 0, samples_ = 0, tokens_ = 0;  // done
  std::int64_t first_step_ = 0, saved_step_ = -1;
  std::string resumed_from_;
  bool announced_ = false;  // observers know of the run
  std::optional<double> validation_loss_, best_loss_;
  double gemm_tflops_ = 0, save_seconds_ = 0;
  std::int64_t bad_losses_ = 0;  // in a row
  std::int64_t previous_skipped_ = 0;
  double window_seconds_ = 0, window_data_seconds_ = 0, window_save_seconds_ = 0;
  std::int64_t window_steps_ = 0, window_tokens_ = 0;  // since the last logged step
  Clock::time_point start_, saved_at_;
};

}  // namespace stoa::train
