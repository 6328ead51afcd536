// The events of a training run for what reports them: progress line, metrics.jsonl, TensorBoard, report. An
// observer may throw IoError (disk full); the run then ends with that error, unless an earlier error is
// already ending it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/arena.h"

namespace stoa::watch {

// The planned parts of a step's time, in seconds; zero if not planned.
struct PlannedTimes {
  double compute = 0;        // its GEMMs at the machine's measured rate, with recomputation
  double communication = 0;  // exposed
  double bubble = 0;
};

// A field of the configuration that differs from the preset.
struct ConfigChange {
  std::string key, preset, value;
};

// Known before the first step.
struct RunStart {
  std::string name;
  std::string layout;     // "1 rank = TP1 PP1 DP1 | layers 12"
  std::string machine;    // "cpu, avx512-bf16, 2 threads"
  std::string model;      // "gpt2 124.4M parameters: 12 x 768, 12 heads, sequence 1024, vocabulary 50257"
  std::string precision;  // "bf16"
  std::int64_t parameters = 0;
  std::int64_t tokens_per_sample = 0;
  std::int64_t first_step = 0;        // steps done before (resumed)
  std::string resumed_from;           // checkpoint directory, or ""
  bool verified = false;              // whether its checksums were verified
  std::int64_t last_step = 0;         // where the run will end, as far as known
  double planned_seconds = 0;         // trainer.max_time, or 0
  double gemm_tflops = 0;             // measured at the start, in compute precision
  MemoryTable planned{};              // bytes per category
  PlannedTimes planned_times;         // of one step
  std::string schedule;               // text form of one rank's actions
  std::string config_yaml;            // resolved
  std::string preset;                 // the base of `changes`: "tiny", "" for the defaults
  std::vector<ConfigChange> changes;  // differences from it
  std::string version, commit;
  std::string tokenizer_fingerprint;
  double began = 0;               // start of this process in seconds since 1970; 0: not known
  std::vector<std::string> data;  // prefixes with weights
  std::vector<std::string> command;
};

// Further measures of a step or a validation: "accuracy", 0.91 ...
using Scores = std::vector<std::pair<std::string, double>>;
// Whether a score says how far predictions are from those of a teacher or a reference.
inline bool is_divergence(std::string_view score) { return score == "kl" || score == "jsd"; }

struct StepReport {
  std::int64_t step = 0;     // 1-based: steps done
  std::int64_t samples = 0;  // consumed so far
  std::int64_t tokens = 0;   // consumed so far
  double loss = 0;           // mean over valid tokens; NaN when the step had none
  double learning_rate = 0;
  double gradient_norm = 0;
  double loss_scale = 1;
  double step_seconds = 0;  // whole step, wall clock; mean over the steps since the last report
  double tokens_per_second = 0;
  double model_tflops = 0;             // (6 N + 6 L h s) x tokens/s
  double mfu = 0;                      // model_tflops / gemm_tflops
  std::int64_t peak_memory_bytes = 0;  // resident
  bool skipped = false;                // gradients were not finite
  std::int64_t skipped_steps = 0;      // so far
  bool logged = false;                 // a step of log_every_n_steps, or the last: goes to metrics.jsonl
  double compute_seconds = 0, data_seconds = 0,
         save_seconds = 0;  // parts of step_seconds; save: time spent waiting for checkpoints
  // An objective that compares answers has rewards, margin, accuracy, KL; a distillation KL.
  Scores scores = {};
};

struct ValidationReport {
  std::int64_t step = 0, samples = 0, tokens = 0;
  double loss = 0;  // per token
  std::int64_t valid_tokens = 0;
  bool of_texts = false;  // those are labels, one of each text
  double seconds = 0;
  bool best = false;
  double bits_per_byte = 0;  // of the validation text; 0 if its length in bytes is not known
  Scores scores{};           // of a labelled task, an objective that compares answers, or a distillation
};

struct SampleReport {
  std::int64_t step = 0;
  std::string prompt, text;
};

// A figure of a benchmark task, or of a group of them.
struct TaskFigure {
  std::string name;  // "piqa/acc", with the filter of answers "gsm8k/exact_match,strict-match"
  double value = 0;
  std::optional<double> standard_error = {};
  bool higher_is_better = true;
};

struct TaskReport {
  std::int64_t step = 0;
  std::vector<TaskFigure> figures;
  double seconds = 0;
};

struct CheckpointReport {
  std::int64_t step = 0;
  std::string path;
  double snapshot_seconds = 0;  // during which the run was paused
};

enum class StopReason : std::uint8_t { kDone, kTime, kSignal, kError };

struct RunFinish {
  StopReason reason = StopReason::kDone;
  std::string detail;  // "max_steps reached", "SIGTERM", error text
  std::int64_t step = 0, tokens = 0;
  double seconds = 0;  // of this process
  std::int64_t skipped_steps = 0;
  MemoryTable used{};  // touched bytes per category
  std::int64_t peak_memory_bytes = 0;
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_start(const RunStart&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_validation(const ValidationReport&) {}
  virtual void on_tasks(const TaskReport&) {}
  virtual void on_sample(const SampleReport&) {}
  virtual void on_checkpoint(const CheckpointReport&) {}
  virtual void on_finish(const RunFinish&) {}
};

}  // namespace stoa::watch
