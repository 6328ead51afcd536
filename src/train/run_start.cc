#include "train/run_start.h"

#include <fmt/ranges.h>

#include <chrono>

#include "infer/open_base.h"
#include "model/adapter_plan.h"
#include "run/rank_checkpoint.h"
#include "train/adapter_run.h"
#include "train/layout_plan.h"
#include "train/run_checkpoints.h"
#include "train/step_flops.h"

namespace stoa::train {
namespace {

// "12" on one stage, "6+6" on two.
std::string layer_counts(const run::TrainingOptions& options) {
  std::string out;
  for (const auto& chunk : run::place_chunks(options.layout, options.model.config.num_layers))
    out += fmt::format("{}{}", out.empty() ? "" : "+", chunk.layers);
  return out;
}

std::string join_prefixes(const std::vector<data::WeightedPrefix>& blend) {
  std::string out;
  for (const auto& part : blend)
    out += fmt::format("{}{} x {}", out.empty() ? "" : ", ", part.weight, part.prefix);
  return out;
}

RunBeginning resume(const TrainerParts& parts, run::TrainingRank& rank, const ckpt::FoundCheckpoint& found) {
  const bool first = parts.seat.first();
  if (first)
    for (const auto& skipped : found.skipped) parts.console.warn(skipped);
  run::restore(rank, found);
  const ckpt::TrainingState& state = found.manifest->training;
  const token::Tokenizer* const tokenizer = parts.tokenizer();
  require<ConfigError>(!tokenizer ||
                           state.tokenizer_fingerprint.empty() ||  // of another program, which does not say
                           state.tokenizer_fingerprint == tokenizer->fingerprint(),
                       "the checkpoint was trained with tokenizer {}, the configuration names {}",
                       state.tokenizer_fingerprint, tokenizer ? tokenizer->fingerprint() : "none");
  const auto base = state.counters.find(kMupBase);
  const std::int64_t was = base == state.counters.end() ? 0 : base->second,
                     is = parts.config.model.mup.mup_base_hidden_size.value_or(0);
  require<ConfigError>(
      was == is,
      "the checkpoint was trained {}, the configuration has mup_base_hidden_size {}: learning rates depend "
      "on it; give the same, or start from the weights (restore_from_path)",
      was == 0 ? std::string("without use_mup") : fmt::format("with mup_base_hidden_size {}", was),
      is == 0 ? std::string("null") : std::to_string(is));
  RunBeginning out;
  out.done = {state.step, state.samples, state.tokens};
  out.model = found.model;
  out.resumed_from = found.root.filename().string();
  if (const auto best = state.metrics.find("best_val_loss"); best != state.metrics.end())
    out.best_loss = best->second;
  out.skipped_steps = static_cast<std::int64_t>(rank.read_scalars()[ops::StepSlot::kSkipped]);
  if (first)
    for (const auto& [key, value] : data_settings(parts.config, parts.inputs->data))
      if (const auto old = state.settings.find(key); old != state.settings.end() && old->second != value)
        parts.console.warn(fmt::format("{} changed from {} to {}; it applies from now on, after {} samples",
                                       key, old->second, value, state.samples));
  require<ConfigError>(state.step <= parts.plan().steps,
                       "the run has done {} steps, the configuration ends at {}", state.step,
                       parts.plan().steps);
  return out;
}

}  // namespace

std::set<std::string> load_start(const TrainerParts& parts, run::TrainingRank& rank) {
  rank.initialize();
  const StartingPoint& start = parts.inputs->start;
  if (!start.weights) return {};
  const ckpt::NewTokens& added = parts.inputs->added_tokens;
  const model::TaskConfig& task = rank.options().model.config.task;
  infer::ModelFiles files = task.labelled() ? infer::ModelFiles(start.weights->model, task)
                                            : infer::ModelFiles(start.weights->model);
  const model::PeftConfig& peft = parts.config.model.peft;
  require<ConfigError>(
      added.count == 0 || !peft.active() || peft.is_lora(),
      "the chat template adds {} tokens to the model, whose rows are trained with low-rank "
      "adapters (lora, dora) and with all weights alone: take one of these, or a template of "
      "tokens that the model has",
      added.count);
  if (peft.active() && task.labelled()) {
    const model::TaskConfig theirs = infer::ModelFiles(start.weights->model).model().config.task;
    require<ConfigError>(
        theirs.type != task.type || theirs.labels == task.labels,
        "model.labels are {}, those of '{}' are {}: an adapter keeps the labels of its model, in their "
        "order; give the same, or train all weights",
        fmt::join(task.labels, ", "), start.weights->root.string(), fmt::join(theirs.labels, ", "));
  }
  if (added.count > 0) files.grow(added);
  if (const auto adapter = start_adapter(parts.config, start)) infer::grow_for(files, *adapter);
  std::set<std::string> fresh = files.fresh();
  const auto is_trained = [&](const std::string& name) {
    return rank.options().model.adapters->trains_base(name);
  };
  if (start_adapter(parts.config, start))  // which holds what it trains
    std::erase_if(fresh, is_trained);
  else if (peft.active())
    for (const std::string& name : fresh)
      require<ConfigError>(
          is_trained(name),
          "'{}' has no {}, which the adapter would neither train nor hold: train all weights for the "
          "task first, or name the layer in model.peft.modules_to_save",
          start.weights->root.string(), name);
  run::load_weights(rank, files);
  load_start_adapter(parts.config, start, rank);
  return fresh;
}

void load_reference(const TrainerParts& parts, run::TrainingRank& rank) {
  const model::PeftConfig& peft = parts.config.model.peft;
  const StartingPoint& start = parts.inputs->start;
  require<ConfigError>(
      !peft.has_virtual_tokens() && !peft.restore_from_path && !(start.weights && start.weights->adapter),
      "objective.reference_model is compared without adapters: give it with whole models or with fresh "
      "low-rank adapters");
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(*parts.config.objective.reference_model);
  require<ConfigError>(!found.adapter, "objective.reference_model '{}' is an adapter: merge it first",
                       found.root.string());
  infer::ModelFiles files(found.model);
  const ckpt::NewTokens& added = parts.inputs->added_tokens;
  if (added.count > 0 && files.model().vocabulary < rank.options().model.vocabulary) files.grow(added);
  run::load_weights(rank, files);
}

RunBeginning begin_run(const TrainerParts& parts, run::TrainingRank& rank) {
  const StartingPoint& start = parts.inputs->start;
  if (start.resume) return resume(parts, rank, *start.resume);
  const std::set<std::string> fresh = load_start(parts, rank);
  RunBeginning out;
  if (!start.weights) return out;
  const ckpt::FoundCheckpoint& from = *start.weights;
  out.model = from.model;
  if (!parts.seat.first()) return out;
  for (const auto& skipped : from.skipped) parts.console.warn(skipped);
  if (!fresh.empty())
    parts.console.line(fmt::format("initialised, not in the files: {}", fmt::join(fresh, ", ")));
  parts.console.line(fmt::format("weights from {}", from.root.string()));
  return out;
}

watch::RunStart describe_start(const TrainerParts& parts, run::TrainingRank& rank,
                               const RunBeginning& beginning, double gemm_tflops) {
  const RunConfig& config = parts.config;
  const TrainingPlan& plan = parts.plan();
  const model::ModelSpec& m = plan.options.model;
  const std::int64_t batch = plan.batch.batch_at(beginning.done.samples);
  watch::RunStart start;
  start.name = config.name;
  start.layout = fmt::format("{} | layers {}", layout_text(plan.options.layout), layer_counts(plan.options));
  start.machine = rank.machine().description;
  start.parameters = model::parameter_count(m);
  start.model =
      fmt::format("{} parameters: {} layers x {}, {} heads, sequence {}, vocabulary {}",
                  format_count(static_cast<double>(start.parameters)), m.config.num_layers,
                  m.config.hidden_size, m.config.num_attention_heads, plan.options.length, m.vocabulary);
  if (!m.config.freeze.empty() || m.adapters)
    start.model += fmt::format(", {} of them trained",
                               format_count(static_cast<double>(model::trained_parameter_count(m))));
  start.precision = std::string(name_of(plan.options.precision.compute));
  start.tokens_per_sample = plan.options.length;
  start.first_step = beginning.done.step;
  start.resumed_from = beginning.resumed_from;
  start.verified = !beginning.resumed_from.empty();
  start.last_step = plan.steps;
  start.planned_seconds = config.trainer.max_time ? config.trainer.max_time->seconds : 0;
  start.gemm_tflops = gemm_tflops;
  start.planned = rank.arena().declared();
  if (gemm_tflops > 0)
    start.planned_times.compute = static_cast<double>(batch * plan.options.length) *
                                  executed_flops_per_token(m, plan.options.length) / (gemm_tflops * 1e12);
  start.config_yaml = parts.config_yaml;
  start.schedule = schedule::to_text(run::step_schedule(
      plan.options, batch / (plan.options.micro_batch * plan.options.layout.data_ranks())));
  start.preset = parts.preset;
  start.changes = parts.changes;
  start.version = parts.version;
  start.commit = parts.commit;
  start.tokenizer_fingerprint = parts.tokenizer() ? parts.tokenizer()->fingerprint() : "";
  const auto& prefix = config.data.data_prefix;
  if (!prefix.empty())
    start.data.push_back(join_prefixes(prefix.blend.empty() ? prefix.train : prefix.blend));
  for (const auto& file : config.chats.train_ds.file_names) start.data.push_back(file);
  start.command = parts.command;
  start.began = std::chrono::duration<double>(parts.began.time_since_epoch()).count();
  return start;
}

}  // namespace stoa::train
