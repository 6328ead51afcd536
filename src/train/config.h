// Configuration of a training run: NeMo's `trainer`, `exp_manager`, and the batch and loss-scale keys under
// `model`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::train {

enum class Precision {
  kFp32,
  kBf16,
  kFp16
};  // of activations and of the weights used in GEMMs; master weights are fp32

std::span<const config::EnumName<Precision>> enum_names(Precision);

struct Duration {  // written as "90s", "15m", "4h", "2d" or NeMo's DD:HH:MM:SS
  double seconds = 0;
};

// `trainer`. A run ends at the first of max_steps, max_tokens, max_epochs, max_time that is reached.
struct TrainerConfig {
  std::optional<std::int64_t> max_steps, max_tokens;
  std::optional<double> max_epochs;
  std::optional<Duration> max_time;
  Precision precision = Precision::kBf16;
  std::int64_t log_every_n_steps = 10;
  std::int64_t val_check_interval = 0;            // steps; 0: no validation
  std::int64_t limit_val_batches = 50;            // global batches per validation
  std::optional<double> gradient_clip_val = 1.0;  // global norm; null or 0: no clipping
  std::vector<std::int64_t> trace_steps;          // steps recorded in trace.json
  // Steps between comparisons of the weights of data-parallel ranks; null: at validations and saves.
  std::optional<std::int64_t> check_weight_hash_across_dp_replicas_interval;
  std::optional<std::int64_t> devices, num_nodes;  // must equal the ranks that run
  Duration communication_timeout{600};             // of one wait
  Duration stop_grace{30};                         // from SIGINT or SIGTERM to the end of the process
  std::optional<double> memory_limit_gb;           // of a rank's device; null: all
  std::optional<std::int64_t> num_threads;         // null: one per core, divided among the ranks of a host
  std::vector<std::string> sample_prompts;         // continued at each validation, shown in the report
  std::int64_t sample_max_tokens = 64;
  std::vector<std::string> eval_tasks;         // benchmark tasks, asked at intervals
  std::optional<std::int64_t> eval_interval;   // steps; null: task_interval()
  std::optional<double> eval_limit;            // documents of each task; below 1: a share
  std::optional<std::int64_t> eval_shots;      // null: as each task says
  bool eval_chat_template = false;             // asked through the tokenizer's chat template
  std::vector<std::string> eval_data;          // folders of data sets; none: as `stoa eval run`
  std::vector<std::string> eval_include_path;  // folders of further tasks

  // Steps between evaluations of tasks; 0: only at the end.
  std::int64_t task_interval() const { return eval_interval.value_or(val_check_interval); }
};

inline constexpr const char* kValidationLoss = "val_loss";

struct CheckpointConfig {                           // exp_manager.checkpoint_callback_params
  std::optional<std::int64_t> every_n_train_steps;  // null: val_check_interval; always at the end of a run
  std::optional<Duration> train_time_interval;      // between two saves; null: time_interval()
  std::int64_t keep_last = 2;                       // newest checkpoints kept
  std::int64_t save_top_k = 1;                      // best by `monitor`, kept in addition; -1: keep all
  std::optional<std::string> monitor;               // val_loss, or a figure of a task: "piqa/acc"

  std::string best_by() const { return monitor.value_or(kValidationLoss); }
  // Seconds; 0: no saves by time.
  double time_interval() const {
    return train_time_interval ? train_time_interval->seconds : every_n_train_steps ? 0 : 600;
  }
};

struct ExpManagerConfig {                       // exp_manager
  std::optional<std::string> explicit_log_dir;  // the run directory
  std::optional<std::string> exp_dir, name;     // instead: exp_dir/name
  bool resume_if_exists = true;                 // false: a directory with checkpoints is rejected
  bool resume_ignore_no_checkpoint = true;      // false: having no checkpoint to resume from is an error
  bool create_checkpoint_callback = true;       // false: nothing is saved
  bool create_tensorboard_logger = true;
  CheckpointConfig checkpoint;
};

struct BatchConfig {  // model.*
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> global_batch_size;               // samples per step; see global()
  std::optional<std::vector<std::int64_t>> rampup_batch_size;  // [start, increment, samples]

  std::int64_t global() const { return global_batch_size.value_or(micro_batch_size); }
};

struct LossScaleConfig {  // model.*, precision fp16 only
  double native_amp_init_scale = 4294967296.0;
  std::int64_t native_amp_growth_interval = 1000;
  std::int64_t hysteresis = 2;
  double min_loss_scale = 1.0;
};

void declare(config::Section<TrainerConfig>& s);
void declare(config::Section<ExpManagerConfig>& s);
void declare(config::Section<BatchConfig>& s);
void declare(config::Section<LossScaleConfig>& s);

}  // namespace stoa::train

template <>
struct stoa::config::Codec<stoa::train::Duration> {
  static stoa::train::Duration parse(const Node& node);
  static Node print(const stoa::train::Duration& value);
  static std::string type() { return "duration"; }
};
