#include "train/training_plan.h"

#include <algorithm>
#include <cmath>

#include "optim/schedule_options.h"
#include "train/layout_plan.h"
#include "train/step_flops.h"
#include "train/teacher_plan.h"

namespace stoa::train {

std::optional<std::string> run_directory(const RunConfig& config) {
  if (config.exp_manager.explicit_log_dir) return config.exp_manager.explicit_log_dir;
  if (config.exp_manager.exp_dir)
    return (std::filesystem::path(*config.exp_manager.exp_dir) /
            config.exp_manager.name.value_or(config.name))
        .string();
  return std::nullopt;
}

double executed_flops(const TrainingPlan& plan) {
  const auto& o = plan.options;
  const double teacher = o.teacher ? model_flops_per_token(o.teacher->model, o.length) : 0;  // frozen
  return static_cast<double>(plan.batch.samples_after(plan.steps) * o.length) *
         (executed_flops_per_token(o.model, o.length) + teacher);
}

nn::Precision precision_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return {DType::kF32, DType::kF32};
    case Precision::kBf16:
      return {DType::kBF16, DType::kBF16};
    case Precision::kFp16:
      return {DType::kF16, DType::kF16};
  }
  fail<InternalError>("unknown precision");
}

namespace {

constexpr std::int64_t kTextsAtOnce = 16;  // of tasks

std::int64_t steps_of(const RunConfig& config, const optim::BatchPlan& batch, std::int64_t epoch_samples) {
  const TrainerConfig& t = config.trainer;
  std::optional<std::int64_t> steps = t.max_steps;
  const auto limit = [&](std::int64_t other) { steps = steps ? std::min(*steps, other) : other; };
  const std::int64_t length = config.model.sample_length();
  if (t.max_tokens) limit(batch.steps_for((*t.max_tokens + length - 1) / length));
  if (t.max_epochs && epoch_samples > 0)
    limit(batch.steps_for(
        static_cast<std::int64_t>(std::ceil(*t.max_epochs * static_cast<double>(epoch_samples)))));
  require<ConfigError>(steps.has_value(),
                       "the length of the training is not given: give trainer.max_steps, max_tokens or "
                       "max_epochs (max_time alone does not determine the learning-rate schedule)");
  return *steps;
}

// Checks every batch size of the ramp-up before the run: a schedule may need a multiple of its stages.
void check_ramp(const optim::BatchPlan& batch, const run::Layout& layout, std::int64_t granule) {
  for (const auto& [step, samples] : batch.sizes()) {
    if (samples == batch.largest()) continue;  // plan_layout() has seen it
    try {
      run::step_schedule(layout, samples / granule);
    } catch (const ConfigError& error) {
      fail<ConfigError>(
          "rampup_batch_size: from step {} on a step has {} samples, {} microbatches per data-parallel rank: "
          "{}",
          step, samples, samples / granule, error.what());
    }
  }
}

}  // namespace

TrainingPlan plan_training(const RunConfig& config, std::int64_t tokenizer_vocabulary,
                           std::optional<std::int64_t> steps, std::int64_t epoch_samples, DoneSteps done) {
  model::require_trainable(config.estimated);
  const run::Layout layout = plan_layout(config);
  const std::int64_t granule = config.batch.micro_batch_size * layout.data_ranks();
  optim::BatchPlan batch(config.batch.global(), granule, config.batch.rampup_batch_size);
  batch.go_on_after(done.steps, done.samples);
  check_ramp(batch, layout, granule);
  // Before the plan: GCC 12 destroys an aggregate's members twice when a later initializer throws.
  const std::int64_t end = steps ? *steps : steps_of(config, batch, epoch_samples);
  TrainingPlan plan{{}, batch, end};
  run::TrainingOptions& o = plan.options;
  model::ModelConfig model = config.model;
  // A template may add tokens, and an adapter have rows of some that were added.
  const bool grows = config.chats.chat_template || !model.peft.trainable_token_indices.empty();
  if (config.chats.chat && grows && model.vocab_size)
    model.vocab_size = std::max(*model.vocab_size, tokenizer_vocabulary);
  o.model = model::resolve_model(model, tokenizer_vocabulary);
  o.teacher = plan_teacher(config, o.model);
  o.kept = plan_kept(config, o.model);
  o.optim = config.optim;
  o.precision = precision_of(config.trainer.precision);
  if (config.model.fp32_residual_connection) o.precision.residual = o.precision.vectors();
  o.micro_batch = config.batch.micro_batch_size;
  o.length = config.model.sample_length();
  o.layout = layout;
  o.microbatches = batch.largest() / (o.micro_batch * layout.data_ranks());
  o.packed = config.data.reset_attention_mask || (config.chats.chat && !model.task.embeds());
  o.max_norm = config.trainer.gradient_clip_val.value_or(0);
  if (config.trainer.memory_limit_gb)
    o.memory_limit = static_cast<std::size_t>(std::llround(*config.trainer.memory_limit_gb * 1e9));
  o.rate = optim::rate_schedule(config.optim, batch, plan.steps);
  o.weight_decay = optim::weight_decay_schedule(config.optim, batch, plan.steps);
  if (config.trainer.precision == Precision::kFp16) {
    o.initial_loss_scale = config.loss_scale.native_amp_init_scale;
    o.loss_scale.dynamic = true;
    o.loss_scale.minimum = config.loss_scale.min_loss_scale;
    o.loss_scale.window = config.loss_scale.native_amp_growth_interval;
    o.loss_scale.hysteresis = config.loss_scale.hysteresis;
  }
  o.evaluation = config.trainer.val_check_interval > 0 || config.objective.two_passes();
  // Samples are drawn at validations, by ranks that hold the whole model.
  const bool whole = layout.grid.degree(grid::Axis::kTensor) == 1 &&
                     layout.grid.degree(grid::Axis::kPipeline) == 1 && !layout.expert_place(0).split() &&
                     layout.zero_stage < 3;
  // A prompt; encoders are refused by name.
  const bool continues = model::traits(config.model).samples != model::Samples::kPairs;
  if (config.trainer.val_check_interval > 0 && whole && continues && !config.trainer.sample_prompts.empty())
    o.sample_context = o.length;
  if (!config.trainer.eval_tasks.empty()) {
    require<ConfigError>(model::traits(config.model).continues_text,
                         "trainer.eval_tasks asks models that continue text: not those of kind bert or t5, "
                         "nor labelled tasks");
    require<ConfigError>(whole,
                         "trainer.eval_tasks needs the whole model on every rank: not with tensor-parallel "
                         "ranks, pipeline stages, experts over ranks or zero_stage 3; evaluate checkpoints "
                         "with 'stoa eval run' instead");
    o.sample_context = o.length;
    o.sample_texts = kTextsAtOnce;
  }
  return plan;
}

}  // namespace stoa::train
