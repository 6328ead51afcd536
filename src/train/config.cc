#include "train/config.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "train/layout_config.h"

namespace stoa::config {

train::Duration Codec<train::Duration>::parse(const Node& node) {
  const ValueError error{"a duration: 90s, 15m, 4h, 2d, or DD:HH:MM:SS", ""};
  if (!node.is_scalar() || node.scalar.empty()) throw error;
  const std::string& text = node.scalar;
  if (text.find(':') != std::string::npos) {
    double seconds = 0;
    int parts = 0;
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = text.find(':', begin);
      const std::string part = text.substr(begin, end - begin);
      const bool digits =
          !part.empty() && part.size() <= 6 && part.find_first_not_of("0123456789") == std::string::npos;
      if (!digits || ++parts > 4) throw error;
      // Weight of the unit to the left, relative to this one: hours per day, then 60 and 60.
      seconds = seconds * (parts == 2 ? 24 : 60) + std::stod(part);
      if (end == std::string::npos) break;
      begin = end + 1;
    }
    if (parts != 4) throw error;
    return {seconds};
  }
  static constexpr std::array<std::pair<char, double>, 4> kUnits{
      {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
  for (const auto& [unit, seconds] : kUnits) {
    if (text.back() != unit) continue;
    const auto count = parse_real(std::string_view(text).substr(0, text.size() - 1));
    if (!count || *count < 0 || *count * seconds > 1e10) throw error;
    return {*count * seconds};
  }
  throw error;
}

Node Codec<train::Duration>::print(const train::Duration& value) {
  std::string count = print_real(value.seconds);
  if (count.ends_with(".0")) count.resize(count.size() - 2);
  return Node::text(count + "s");
}

}  // namespace stoa::config

namespace stoa::train {

using config::EnumName;
using config::Section;

std::span<const EnumName<Precision>> enum_names(Precision) {
  static constexpr std::array<EnumName<Precision>, 10> kNames{{
      {"fp32", Precision::kFp32},
      {"bf16", Precision::kBf16},
      {"fp16", Precision::kFp16},
      {"32", Precision::kFp32},
      {"32-true", Precision::kFp32},
      {"bf16-mixed", Precision::kBf16},
      {"16", Precision::kFp16},
      {"16-mixed", Precision::kFp16},
      {"bfloat16", Precision::kBf16},
      {"float32", Precision::kFp32},
  }};
  return kNames;
}

namespace {

constexpr double kMaxCount = 9007199254740992.0;  // 2^53

void declare_checkpoint(Section<CheckpointConfig>& s) {
  using C = CheckpointConfig;
  s.field("every_n_train_steps", &C::every_n_train_steps)
      .range(1, kMaxCount)
      .unit("steps")
      .derived("trainer.val_check_interval")
      .help("Steps between checkpoints. The end of a run and SIGTERM always save.");
  s.field("train_time_interval", &C::train_time_interval)
      .derived("10m; 0s where every_n_train_steps is given")
      .help(
          "Time between checkpoints, in addition to every_n_train_steps: 90s, 10m or 1h; 0s: none by time.");
  s.field("keep_last", &C::keep_last).range(1, 1e6).help("Newest checkpoints that are kept.");
  s.field("save_top_k", &C::save_top_k)
      .range(-1, 1e6)
      .help("Best checkpoints by monitor that are kept in addition to the newest; -1: nothing is deleted.");
  s.field("monitor", &C::monitor)
      .derived("val_loss")
      .help(
          "What makes a checkpoint the best: val_loss, or a figure of trainer.eval_tasks as metrics.jsonl "
          "names it (piqa/acc). Whether more of it is better follows from the metric.");
  s.resolve([](C& c) {
    if (c.monitor == "reduced_val_loss") c.monitor = kValidationLoss;  // NeMo's name
  });
}

}  // namespace

void declare(Section<TrainerConfig>& s) {
  using C = TrainerConfig;
  s.field("max_steps", &C::max_steps)
      .range(0, kMaxCount)
      .unit("steps")
      .help("Steps of the global batch. The first limit reached ends the run.");
  s.field("max_tokens", &C::max_tokens).range(0, kMaxCount).unit("tokens").help("Tokens trained on.");
  s.field("max_epochs", &C::max_epochs)
      .above(0)
      .range(0, 1e9)
      .unit("epochs")
      .help("Passes over the training data.");
  s.field("max_time", &C::max_time)
      .help("Wall time of this start: 90s, 15m, 4h, 2d or DD:HH:MM:SS; then the run saves and ends.");
  s.field("precision", &C::precision)
      .help(
          "Type of activations and GEMMs; weights, gradients and moments are kept in fp32. fp16 scales the "
          "loss.");
  s.field("log_every_n_steps", &C::log_every_n_steps)
      .range(1, kMaxCount)
      .unit("steps")
      .help("Steps between lines of metrics.jsonl.");
  s.field("val_check_interval", &C::val_check_interval)
      .range(0, kMaxCount)
      .unit("steps")
      .help("Steps between validations; 0: none.");
  s.field("limit_val_batches", &C::limit_val_batches)
      .range(0, kMaxCount)
      .unit("global batches")
      .help("Global batches per validation; 0: none.");
  s.field("gradient_clip_val", &C::gradient_clip_val)
      .range(0, 1e12)
      .help("Largest global gradient norm; 0 or null: no clipping.");
  s.field("trace_steps", &C::trace_steps)
      .range(0, kMaxCount)
      .help("Steps that trace.json shows, of all ranks.");
  s.field("check_weight_hash_across_dp_replicas_interval", &C::check_weight_hash_across_dp_replicas_interval)
      .range(1, kMaxCount)
      .derived("at every validation and save")
      .unit("steps")
      .help("How often data-parallel ranks compare a hash of their weights; a rank that drifts is named.");
  s.field("devices", &C::devices)
      .range(1, kMaxRanks)
      .derived("the number that holds each parameter once: tensor x pipeline x context sizes")
      .help("Ranks per node. Without a launcher devices x num_nodes ranks run as threads of one process.");
  s.field("num_nodes", &C::num_nodes)
      .range(1, kMaxRanks)
      .derived("1")
      .help("Nodes. Where a launcher starts the ranks devices x num_nodes must equal the ranks that run.");
  s.field("communication_timeout", &C::communication_timeout)
      .help("How long a rank waits for another before the run fails with a message that names it.");
  s.field("stop_grace", &C::stop_grace)
      .help(
          "How long after SIGINT or SIGTERM the run may take to finish its step and save. Then the process "
          "exits and the newest complete checkpoint remains. Slurm kills after 30 s.");
  s.field("memory_limit_gb", &C::memory_limit_gb)
      .range(1e-6, 1e6)
      .unit("GB of 1e9 bytes")
      .derived("what the device has")
      .help(
          "A run that plans more memory on the device of one rank is rejected before it allocates any. "
          "Memory of drivers and libraries is not counted.");
  s.field("num_threads", &C::num_threads).range(1, 4096).derived("one per core").help("Worker threads.");
  s.field("sample_prompts", &C::sample_prompts)
      .help(
          "Texts that the model continues at each validation, or, with data.chat and a chat template, "
          "messages "
          "that it answers; the report shows them over time.");
  s.field("sample_max_tokens", &C::sample_max_tokens)
      .range(1, 1e6)
      .unit("tokens")
      .help("Length of those continuations.");
  s.field("eval_tasks", &C::eval_tasks)
      .help(
          "Benchmark tasks, groups or YAML files that the model is asked between steps (see 'stoa eval "
          "run'); "
          "their figures are in metrics.jsonl, TensorBoard and the report. Every rank must hold the whole "
          "model.");
  s.field("eval_interval", &C::eval_interval)
      .range(0, kMaxCount)
      .unit("steps")
      .derived("val_check_interval")
      .help("Steps between evaluations of tasks; 0: only at the end.");
  s.field("eval_limit", &C::eval_limit)
      .above(0)
      .range(0, 1e9)
      .derived("all")
      .unit("documents")
      .help("Only the first documents of each task; below 1: that share of them.");
  s.field("eval_shots", &C::eval_shots)
      .range(0, 1000)
      .derived("as each task says")
      .help("Examples in a task's prompt.");
  s.field("eval_chat_template", &C::eval_chat_template)
      .help("Tasks are asked through the tokenizer's chat template.");
  s.field("eval_data", &C::eval_data)
      .help("Folders of the tasks' data sets; none: $STOA_EVAL_DATA, $HF_DATASETS_CACHE.");
  s.field("eval_include_path", &C::eval_include_path).help("Folders of further tasks.");
}

void declare(Section<ExpManagerConfig>& s) {
  using C = ExpManagerConfig;
  s.field("explicit_log_dir", &C::explicit_log_dir).help("The run directory (also --output DIR).");
  s.field("exp_dir", &C::exp_dir)
      .help(
          "Parent of the run directory; the run directory is exp_dir/name where explicit_log_dir is not "
          "given.");
  s.field("name", &C::name).help("Name of the run directory in exp_dir.");
  s.field("resume_if_exists", &C::resume_if_exists)
      .help(
          "Continue from the newest complete checkpoint of the run directory. false: a directory that has "
          "one is an error.");
  s.field("resume_ignore_no_checkpoint", &C::resume_ignore_no_checkpoint)
      .help("Start from the beginning where there is no checkpoint; false: that is an error.");
  s.field("create_checkpoint_callback", &C::create_checkpoint_callback).help("Save checkpoints.");
  s.field("create_tensorboard_logger", &C::create_tensorboard_logger)
      .help("Write metrics for TensorBoard too.");
  s.section("checkpoint_callback_params", &C::checkpoint, declare_checkpoint,
            "When checkpoints are saved and which are kept.");
  s.resolve([](C& c) {
    if (!c.explicit_log_dir && c.exp_dir)
      c.explicit_log_dir = c.name ? *c.exp_dir + "/" + *c.name : *c.exp_dir;
  });
}

void declare(Section<BatchConfig>& s) {
  using C = BatchConfig;
  s.field("micro_batch_size", &C::micro_batch_size)
      .range(1, 1 << 20)
      .unit("samples")
      .help("Samples that pass through the model together.");
  s.field("global_batch_size", &C::global_batch_size)
      .range(1, 1 << 30)
      .unit("samples")
      .derived("micro_batch_size")
      .help("Samples per step over all ranks; a multiple of micro_batch_size.");
  s.field("rampup_batch_size", &C::rampup_batch_size)
      .length(3)
      .range(1, kMaxCount)
      .help(
          "[start, increment, samples]: the global batch grows from start by increments until that many "
          "samples were seen.");
  s.resolve([](C& c) { c.global_batch_size = c.global(); });
  s.validate({"global_batch_size", "micro_batch_size"}, [](const C& c) {
    require<ConfigError>(c.global() % c.micro_batch_size == 0,
                         "global_batch_size {} is not a multiple of micro_batch_size {}", c.global(),
                         c.micro_batch_size);
  });
  s.validate({"rampup_batch_size", "global_batch_size", "micro_batch_size"}, [](const C& c) {
    if (!c.rampup_batch_size) return;
    const auto start = (*c.rampup_batch_size)[0], increment = (*c.rampup_batch_size)[1];
    require<ConfigError>(start <= c.global() && (c.global() - start) % increment == 0,
                         "from {} in steps of {} the batch never equals {}", start, increment, c.global());
    require<ConfigError>(start % c.micro_batch_size == 0 && increment % c.micro_batch_size == 0,
                         "start {} and increment {} must be multiples of micro_batch_size {}", start,
                         increment, c.micro_batch_size);
  });
}

void declare(Section<LossScaleConfig>& s) {
  using C = LossScaleConfig;
  s.field("native_amp_init_scale", &C::native_amp_init_scale).range(1, 1e30).help("fp16: first loss scale.");
  s.field("native_amp_growth_interval", &C::native_amp_growth_interval)
      .range(1, kMaxCount)
      .unit("steps")
      .help("fp16: good steps after which the scale doubles.");
  s.field("hysteresis", &C::hysteresis).range(1, 1e6).help("fp16: overflows before the scale halves.");
  s.field("min_loss_scale", &C::min_loss_scale)
      .range(1e-30, 1e30)
      .help("fp16: the scale never falls below this; an overflow there stops the run.");
  s.validate({"native_amp_init_scale", "min_loss_scale"}, [](const C& c) {
    require<ConfigError>(c.min_loss_scale <= c.native_amp_init_scale,
                         "min_loss_scale {} is above native_amp_init_scale {}", c.min_loss_scale,
                         c.native_amp_init_scale);
  });
}

}  // namespace stoa::train
