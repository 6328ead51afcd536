#include "train/trainer.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/checksum.h"
#include "model/huggingface/generation_config.h"
#include "run/gather_texts.h"
#include "run/gemm_rate.h"
#include "run/generate.h"
#include "run/replicas.h"
#include "train/answer_score.h"
#include "train/generation_file.h"
#include "train/layout_plan.h"
#include "train/step_flops.h"
#include "train/tokenizer_choice.h"

namespace stoa::train {

using watch::CheckpointReport, watch::RunFinish, watch::RunStart, watch::StepReport, watch::StopReason,
    watch::ValidationReport;

namespace {

// Counter of a checkpoint whose run had use_mup.
constexpr const char* kMupBase = "mup_base_hidden_size";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

fs::path whole_path(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();  // "runs/a/" names runs/a
}

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

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)), config_(parts_.config), start_(Clock::now()) {}
Trainer::~Trainer() = default;

RunFinish Trainer::run() {
  RunFinish finish;
  try {
    if (!set_up()) {
      finish.reason = StopReason::kSignal;
      finish.detail = "stopped by a signal before the first step: nothing was trained";
      finish.step = step_;
      finish.tokens = tokens_;
      if (!made_.empty()) discard_directory();
      return finish;
    }
    loop(finish);
    if (config_.exp_manager.create_checkpoint_callback) {
      const bool stopped_at_once = finish.reason == StopReason::kSignal && step_ == first_step_;
      if (saved_step_ != step_ && !stopped_at_once) save(true);
      finish_checkpoint();
      if (finish.reason == StopReason::kSignal && !stopped_at_once)
        finish.detail += "; a checkpoint was saved";
    }
  } catch (const std::exception& error) {
    parts_.seat.on_failure(error.what());
    finish.reason = StopReason::kError;
    finish.detail = error.what();
    if (step_ == first_step_ && !made_.empty()) {
      discard_directory();  // nothing came of it
      throw;
    }
    finish.step = step_;
    finish.tokens = tokens_;
    finish.seconds = seconds_since(start_);
    if (announced_)
      for (auto* observer : parts_.observers) observer->on_finish(finish);
    throw;
  }
  finish.step = step_;
  finish.tokens = tokens_;
  finish.seconds = seconds_since(start_);
  finish.skipped_steps = previous_skipped_;
  finish.used = rank_->arena().touched();
  finish.peak_memory_bytes = peak_resident_bytes();
  for (auto* observer : parts_.observers) observer->on_finish(finish);
  return finish;
}

namespace {

model::huggingface::SpecialTokens special_tokens(const token::Tokenizer* tokenizer, model::ModelKind kind) {
  model::huggingface::SpecialTokens special;
  if (!tokenizer) return special;
  special.bos = tokenizer->bos_id();
  special.pad = tokenizer->pad_id();
  if (const auto eod = tokenizer->eod_id()) special.eos = {*eod};
  if (kind == model::ModelKind::kT5) special.decoder_start = special.pad.value_or(0);
  return special;
}

}  // namespace

bool Trainer::set_up() {
  const auto directory = run_directory(config_);
  require<ConfigError>(directory.has_value(),
                       "no run directory: give --output DIR (exp_manager.explicit_log_dir)");
  directory_ = *directory;
  plan_ = &parts_.inputs->data.plan;
  if (parts_.inputs->tokenizer) tokenizer_ = &*parts_.inputs->tokenizer;
  if (first()) make_directory();
  machine_ = std::make_unique<run::Machine>(parts_.make_machine());
  run::Machine meta = parts_.make_meta_machine(*machine_);
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, plan_->options, parts_.seat.rank);
  rank_ = std::make_unique<run::TrainingRank>(*machine_, plan_->options,
                                              parts_.seat.context(*machine_->device), scratch);
  start_or_resume();
  gemm_tflops_ = run::measure_gemm_tflops(*machine_, plan_->options.precision.compute, run::kQuickShapes,
                                          &rank_->parallel().along(parallel::Group::kWorld));
  if (first() && config_.exp_manager.create_checkpoint_callback) {
    const auto& c = config_.exp_manager.checkpoint;
    ckpt::WriterOptions options;
    options.retention.keep_last = c.save_top_k < 0 ? 0 : static_cast<int>(c.keep_last);
    options.retention.keep_best = c.save_top_k < 0 ? 0 : static_cast<int>(c.save_top_k);
    checkpoints_ = std::make_unique<ckpt::CheckpointWriter>(directory_ / "checkpoints", options);
    if (tokenizer_) tokenizer_files_ = tokenizer_files(*tokenizer_);
    if (config_.model.kind != model::ModelKind::kBert)
      tokenizer_files_.push_back(
          {model::huggingface::GenerationConfig::kFile,
           generation_file(start_model_, tokenizer_, special_tokens(tokenizer_, config_.model.kind))});
  }

  const data::Dataset* train = parts_.inputs->data.datasets.train.get();
  const std::int64_t last = plan_->batch.samples_after(plan_->steps);
  // The background thread keeps its own count of samples: batch number n is this rank's part of step n's
  // global batch.
  auto consumed = std::make_shared<std::int64_t>(samples_);
  const run::Layout& layout = plan_->options.layout;
  prefetch_ = std::make_unique<data::Prefetcher>(
      step_, 2,
      [train, plan = plan_, last, consumed, ranks = layout.data_ranks(),
       own = layout.data_rank(parts_.seat.rank)](std::int64_t, data::Batch& out, const std::stop_token&) {
        if (*consumed >= last) return false;
        const std::vector<std::int64_t> rows = samples_of_step(*plan, *train, *consumed);
        data::fill_batch(*train, rows_of_rank(rows, plan->options.micro_batch, ranks, own), out);
        *consumed += static_cast<std::int64_t>(rows.size());
        return true;
      });
  next_batch_ = prefetch_->next();  // what is wrong with the data is said before the run is announced
  if (asked_to_stop()) return false;
  parts_.on_training();
  if (!first()) return true;
  write_text(directory_ / "config.yaml", parts_.config_yaml);
  announce();
  return true;
}

bool Trainer::asked_to_stop() {
  double asked = parts_.stop.stop_requested() ? 1 : 0;
  add_over_ranks(std::span(&asked, 1), parallel::Group::kWorld);
  return asked > 0;
}

void Trainer::make_directory() {
  std::error_code error;
  for (fs::path path = whole_path(directory_); !path.empty() && !fs::exists(path, error);
       path = path.parent_path())
    made_ = path;
  fs::create_directories(directory_, error);
  require<IoError>(!error, "cannot create the run directory '{}': {}", directory_.string(), error.message());
  remove_abandoned(directory_);
}

void Trainer::discard_directory() noexcept {
  checkpoints_.reset();  // gives its lock back
  std::error_code ignored;
  fs::path path = whole_path(directory_);
  fs::remove_all(path, ignored);
  while (path != made_ && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
    if (!fs::remove(path, ignored)) return;  // somebody put something there
  }
}

void Trainer::start_or_resume() {
  if (const auto& found = parts_.inputs->resume) {
    if (first())
      for (const auto& skipped : found->skipped) parts_.console.warn(skipped);
    run::restore(*rank_, *found);
    start_model_ = found->model;
    const ckpt::TrainingState& state = found->manifest->training;
    require<ConfigError>(!tokenizer_ || state.tokenizer_fingerprint == tokenizer_->fingerprint(),
                         "the checkpoint was trained with tokenizer {}, the configuration names {}",
                         state.tokenizer_fingerprint, tokenizer_ ? tokenizer_->fingerprint() : "none");
    const auto base = state.counters.find(kMupBase);
    const std::int64_t was = base == state.counters.end() ? 0 : base->second,
                       is = config_.model.mup.mup_base_hidden_size.value_or(0);
    require<ConfigError>(
        was == is,
        "the checkpoint was trained {}, the configuration has mup_base_hidden_size {}: learning "
        "rates follow from it; give the same, or start from the weights (restore_from_path)",
        was == 0 ? std::string("without use_mup") : fmt::format("with mup_base_hidden_size {}", was),
        is == 0 ? std::string("null") : std::to_string(is));
    step_ = first_step_ = saved_step_ = state.step;
    samples_ = state.samples;
    tokens_ = state.tokens;
    resumed_from_ = found->root.filename().string();
    if (const auto best = state.metrics.find("best_val_loss"); best != state.metrics.end())
      best_loss_ = best->second;
    previous_skipped_ = static_cast<std::int64_t>(rank_->read_scalars()[ops::StepSlot::kSkipped]);
    if (first())
      for (const auto& [key, value] : data_settings(config_, parts_.inputs->data))
        if (const auto old = state.settings.find(key); old != state.settings.end() && old->second != value)
          parts_.console.warn(
              fmt::format("{} changed from {} to {}; it applies to what follows the {} samples already seen",
                          key, old->second, value, state.samples));
    require<ConfigError>(step_ <= plan_->steps, "the run has done {} steps, the configuration ends at {}",
                         step_, plan_->steps);
    return;
  }
  rank_->initialize();
  if (config_.restore_from_path) {
    const auto from = ckpt::find_checkpoint(*config_.restore_from_path);
    start_model_ = from.model;
    const model::BertConfig& task = config_.model.bert;
    const run::ModelFiles files =
        task.labelled() ? run::ModelFiles(from.model, task) : run::ModelFiles(from.model);
    run::load_weights(*rank_, files);
    if (first() && !files.fresh().empty())
      parts_.console.line(fmt::format("fresh, not in the files: {}", fmt::join(files.fresh(), ", ")));
    if (first()) parts_.console.line(fmt::format("weights from {}", from.root.string()));
  }
}

void Trainer::announce() {
  const bool wanted = config_.trainer.val_check_interval > 0 && !config_.trainer.sample_prompts.empty();
  if (first() && wanted && !rank_->decoder())
    parts_.console.warn(
        "trainer.sample_prompts: no text is drawn, no rank of this layout holds the whole model");
  const model::Gpt& m = plan_->options.model;
  RunStart start;
  start.name = config_.name;
  start.layout =
      fmt::format("{} | layers {}", layout_text(plan_->options.layout), layer_counts(plan_->options));
  start.machine = machine_->description;
  start.parameters = model::parameter_count(m);
  start.model =
      fmt::format("{} parameters: {} layers x {}, {} heads, sequence {}, vocabulary {}",
                  format_count(static_cast<double>(start.parameters)), m.config.num_layers,
                  m.config.hidden_size, m.config.num_attention_heads, plan_->options.length, m.vocabulary);
  start.precision = std::string(name_of(plan_->options.precision.compute));
  start.tokens_per_sample = plan_->options.length;
  start.first_step = first_step_;
  start.resumed_from = resumed_from_;
  start.verified = !resumed_from_.empty();
  start.last_step = plan_->steps;
  start.planned_seconds = config_.trainer.max_time ? config_.trainer.max_time->seconds : 0;
  start.gemm_tflops = gemm_tflops_;
  start.planned = rank_->arena().declared();
  const auto step_tokens = static_cast<double>(plan_->batch.batch_at(samples_) * plan_->options.length);
  if (gemm_tflops_ > 0)
    start.planned_times.compute =
        step_tokens * executed_flops_per_token(m, plan_->options.length) / (gemm_tflops_ * 1e12);
  start.config_yaml = parts_.config_yaml;
  start.schedule = schedule::to_text(run::step_schedule(
      plan_->options.layout,
      plan_->batch.batch_at(samples_) / (plan_->options.micro_batch * plan_->options.layout.data_ranks())));
  start.preset = parts_.preset;
  start.changes = parts_.changes;
  start.version = parts_.version;
  start.commit = parts_.commit;
  start.tokenizer_fingerprint = tokenizer_ ? tokenizer_->fingerprint() : "";
  start.data.push_back(join_prefixes(config_.data.data_prefix.blend.empty()
                                         ? config_.data.data_prefix.train
                                         : config_.data.data_prefix.blend));
  start.command = parts_.command;
  start.began = std::chrono::duration<double>(parts_.began.time_since_epoch()).count();
  announced_ = true;
  for (auto* observer : parts_.observers) observer->on_start(start);
}

void Trainer::add_over_ranks(std::span<double> values, parallel::Group group) {
  rank_->parallel()
      .along(group)
      .all_reduce(TensorView(values.data(), DType::kF64, {static_cast<std::int64_t>(values.size())}),
                  comm::ReduceOp::kSum, *machine_->stream)
      ->wait();
}

Trainer::Agreement Trainer::agree(std::int64_t own_tokens) {
  const auto& parallel = rank_->parallel();
  // Ranks of one pipeline, tensor group and context group have the same rows: one of them counts.
  const bool counts = parallel.along(parallel::Group::kModel).rank() == 0 &&
                      parallel.coordinate(parallel::Axis::kContext) == 0;
  const bool late = config_.trainer.max_time && seconds_since(start_) >= config_.trainer.max_time->seconds;
  const double interval = config_.exp_manager.checkpoint.time_interval();
  const bool save = config_.exp_manager.create_checkpoint_callback && interval > 0 && saved_step_ != step_ &&
                    step_ > first_step_ && seconds_since(saved_at_) >= interval;
  std::array<std::int64_t, 5> sums{counts ? own_tokens : 0, parts_.stop.stop_requested() ? 1 : 0,
                                   first() && late ? 1 : 0, part_ && part_->done() ? 1 : 0,
                                   first() && save ? 1 : 0};
  parallel.along(parallel::Group::kWorld)
      .all_reduce(TensorView(sums.data(), DType::kI64, {static_cast<std::int64_t>(sums.size())}),
                  comm::ReduceOp::kSum, *machine_->stream)
      ->wait();
  return {sums[0], sums[1], sums[2], sums[3], sums[4]};
}

void Trainer::loop(RunFinish& finish) {
  finish.reason = StopReason::kDone;
  finish.detail = fmt::format("{} steps done", plan_->steps);
  saved_at_ = Clock::now();
  if (config_.trainer.val_check_interval > 0 && step_ == 0) validate();
  const std::int64_t first_step = step_;
  while (step_ < plan_->steps) {
    const auto begin = Clock::now();
    data::Batch* batch = next_batch_ ? std::exchange(next_batch_, nullptr) : prefetch_->next();
    require<InternalError>(batch != nullptr, "the data ended before the last step");
    const double data_seconds = seconds_since(begin);
    const Agreement all = agree(batch->valid_tokens);
    if (all.written == plan_->options.layout.grid.size()) commit_parts();
    if (all.stop > 0) {
      finish.reason = StopReason::kSignal;
      finish.detail = fmt::format("stopped by a signal after step {}", step_);
      return;
    }
    if (step_ > first_step && all.time > 0) {
      finish.reason = StopReason::kTime;
      finish.detail = fmt::format("trainer.max_time reached after step {}", step_);
      return;
    }
    if (all.save > 0) save(false);
    batch->valid_tokens = all.tokens;
    train_step(*batch, data_seconds);
    if (due(config_.trainer.check_weight_hash_across_dp_replicas_interval.value_or(0)))
      run::compare_replicas(*rank_, step_);
    if (due(config_.trainer.val_check_interval) ||
        (step_ == plan_->steps && config_.trainer.val_check_interval > 0)) {
      run::compare_replicas(*rank_, step_);
      validate();
    }
    const std::int64_t every =
        config_.exp_manager.checkpoint.every_n_train_steps.value_or(config_.trainer.val_check_interval);
    if (config_.exp_manager.create_checkpoint_callback && due(every)) save(false);
    if (parts_.stop_after && step_ >= *parts_.stop_after) {
      finish.detail = fmt::format("stopped after step {}, as asked", step_);
      return;
    }
  }
}

void Trainer::train_step(const data::Batch& batch, double data_seconds) {
  const auto begin = Clock::now();
  const auto& traced = config_.trainer.trace_steps;
  const auto dump = dump_of_step(batch.rows);
  const bool trace = std::find(traced.begin(), traced.end(), step_ + 1) != traced.end();
  if (trace && !trace_) {  // the ranks' clocks begin together
    rank_->parallel().along(parallel::Group::kWorld).barrier();
    trace_ = std::make_unique<run::TraceRecorder>();
  }
  rank_->step(batch, samples_, trace ? trace_.get() : nullptr, dump.get());
  if (trace) write_trace();
  ++step_;
  const std::int64_t rows = batch.rows * plan_->options.layout.data_ranks();
  samples_ += rows;
  const std::int64_t tokens = rows * batch.sequence_length;
  tokens_ += tokens;
  window_tokens_ += tokens;
  report_step(seconds_since(begin) + data_seconds, data_seconds);
}

void Trainer::report_step(double seconds, double data_seconds) {
  const run::StepScalars scalars = rank_->read_scalars();
  window_seconds_ += seconds;
  window_data_seconds_ += data_seconds;
  ++window_steps_;
  using ops::StepSlot;
  StepReport report;
  report.step = step_;
  report.samples = samples_;
  report.tokens = tokens_;
  report.loss =
      scalars[StepSlot::kTokens] > 0 ? scalars[StepSlot::kLossSum] / scalars[StepSlot::kTokens] : NAN;
  report.learning_rate = scalars[StepSlot::kLearningRate];
  report.gradient_norm = scalars[StepSlot::kGradNorm];
  report.loss_scale = scalars[StepSlot::kLossScale];
  report.skipped = scalars[StepSlot::kFoundInf] != 0;
  report.skipped_steps = static_cast<std::int64_t>(scalars[StepSlot::kSkipped]);
  previous_skipped_ = report.skipped_steps;
  report.logged = due(config_.trainer.log_every_n_steps) || step_ == plan_->steps || step_ == 1;
  const auto n = static_cast<double>(window_steps_);
  report.step_seconds = window_seconds_ / n;
  report.data_seconds = window_data_seconds_ / n;
  report.save_seconds = window_save_seconds_ / n;
  report.compute_seconds = report.step_seconds - report.data_seconds;
  report.tokens_per_second = static_cast<double>(window_tokens_) / window_seconds_;
  report.model_tflops =
      model_flops_per_token(plan_->options.model, plan_->options.length) * report.tokens_per_second * 1e-12;
  report.mfu = gemm_tflops_ > 0 ? report.model_tflops / gemm_tflops_ : 0;
  report.peak_memory_bytes = peak_resident_bytes();
  for (auto* observer : parts_.observers) observer->on_step(report);
  if (report.logged) {
    window_seconds_ = window_data_seconds_ = window_save_seconds_ = 0;
    window_steps_ = window_tokens_ = 0;
  }
  bad_losses_ = std::isfinite(report.loss) || scalars[StepSlot::kTokens] == 0 ? 0 : bad_losses_ + 1;
  require<NumericsError>(
      bad_losses_ < 10,
      "the loss has not been finite for {} steps (since step {}): no update was made in them. Lower the "
      "learning rate ({}), or resume from an earlier checkpoint",
      bad_losses_, step_ - bad_losses_ + 1, report.learning_rate);
}

void Trainer::validate() {
  const data::Dataset* validation = parts_.inputs->data.datasets.validation.get();
  if (!validation) return;
  const auto begin = Clock::now();
  const run::Layout& layout = plan_->options.layout;
  const std::int64_t micro = plan_->options.micro_batch, granule = micro * layout.data_ranks();
  const std::int64_t available =
      std::min(validation->size(), config_.trainer.limit_val_batches * plan_->batch.largest());
  // So many microbatches at once that stages work side by side.
  const std::int64_t at_once = granule * (layout.pipeline_ranks() == 1 ? 1 : 4 * layout.pipeline_ranks());
  const std::int64_t rows = available / granule * granule;
  data::Batch& batch = validation_batch_;
  const auto fill = [&](std::int64_t row) {
    std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min(at_once, rows - row)));
    std::iota(samples.begin(), samples.end(), row);
    data::fill_batch(*validation,
                     rows_of_rank(samples, micro, layout.data_ranks(), layout.data_rank(parts_.seat.rank)),
                     batch);
  };
  const model::BertConfig& bert = config_.model.bert;
  // A sentence (of a masked model) weighs as much as the tokens of a sample do on average over all that is
  // read here, whatever part of it a rank sees at once.
  const bool sentences = config_.model.kind == model::ModelKind::kBert && bert.sentence_question();
  if (sentences && !validation_tokens_per_sample_) {
    double tokens = 0;
    for (std::int64_t row = 0; row < rows; row += at_once) {
      fill(row);
      tokens += static_cast<double>(batch.valid_tokens);
    }
    add_over_ranks(std::span(&tokens, 1), parallel::Group::kData);
    validation_tokens_per_sample_ = tokens / static_cast<double>(std::max<std::int64_t>(rows, 1));
  }
  AnswerScore answers(bert);
  run::TrainingRank::AnswerSink sink;
  if (bert.labelled())
    sink = [&](std::int64_t row, TensorView logits) { answers.add(batch, row, micro, logits); };
  double loss = 0;
  std::array<double, 2> counts{};  // valid tokens, bytes of text
  for (std::int64_t row = 0; row < rows; row += at_once) {
    if (asked_to_stop()) return;  // a part of it would be no measure
    fill(row);
    loss += rank_->evaluate(batch, validation_tokens_per_sample_.value_or(0), sink).loss;
    counts[0] += static_cast<double>(batch.valid_tokens);
    if (tokenizer_ && !bert.labelled())  // labels are tokens
      for (std::size_t i = 0; i < batch.labels.size(); ++i)
        if (batch.loss_mask[i] > 0 && !tokenizer_->is_special(batch.labels[i]))  // those are no text
          counts[1] += static_cast<double>(tokenizer_->token_bytes(batch.labels[i]).size());
  }
  add_over_ranks(counts, parallel::Group::kData);
  // Stages without the head have seen no answers.
  for (const auto group : {parallel::Group::kPipeline, parallel::Group::kData})
    if (bert.labelled()) add_over_ranks(answers.counts(), group);
  const auto [tokens, bytes] = counts;
  if (tokens == 0) return;
  ValidationReport report;
  report.step = step_;
  report.samples = samples_;
  report.tokens = tokens_;
  report.loss = loss / tokens;
  report.valid_tokens = static_cast<std::int64_t>(tokens);
  if (bytes > 0) report.bits_per_byte = loss / std::numbers::ln2 / bytes;
  if (bert.labelled()) report.scores = answers.scores();
  report.seconds = seconds_since(begin);
  report.best = !best_loss_ || report.loss < *best_loss_;
  if (report.best) best_loss_ = report.loss;
  validation_loss_ = report.loss;
  for (auto* observer : parts_.observers) observer->on_validation(report);
  draw_samples();
}

void Trainer::draw_samples() {
  if (!tokenizer_ || !rank_->decoder()) return;
  // Ranks of a context group draw together. All others would draw the same: the one that shows it does.
  const bool alone = plan_->options.layout.grid.degree(grid::Axis::kContext) == 1;
  if (alone && !first()) return;
  for (const auto& prompt : config_.trainer.sample_prompts) {
    run::GenerateOptions options;
    options.max_tokens = config_.trainer.sample_max_tokens;
    options.sampling.temperature = 0.8;
    options.sampling.top_p = 0.95;
    options.sampling.seed = 1;  // the same draws at every step: what changes is the model
    std::string text;
    run::generate(*rank_->decoder(), rank_->decoder_parts(), *tokenizer_, prompt, options,
                  [&](std::string_view piece) {
                    text += piece;
                    return !alone || !parts_.stop.stop_requested();
                  });
    for (auto* observer : parts_.observers) observer->on_sample({step_, prompt, text});
  }
}

void Trainer::save(bool wait) {
  const auto begin = Clock::now();
  ckpt::TrainingState state;
  state.step = step_;
  state.samples = state.data_cursor = samples_;
  state.tokens = tokens_;
  state.config_hash = checksum_text(checksum(parts_.config_yaml));
  state.tokenizer_fingerprint = tokenizer_ ? tokenizer_->fingerprint() : "";
  state.layout = layout_text(plan_->options.layout);
  state.data_parts = parts_.inputs->data.parts;
  state.settings = data_settings(config_, parts_.inputs->data);
  if (const auto base = config_.model.mup.mup_base_hidden_size) state.counters[kMupBase] = *base;
  if (validation_loss_) state.metrics["val_loss"] = *validation_loss_;
  if (best_loss_) state.metrics["best_val_loss"] = *best_loss_;
  finish_checkpoint();  // the snapshot before this one is written: at most one is in memory
  run::compare_replicas(*rank_, step_);
  if (plan_->options.layout.grid.size() > 1) {
    run::save_scalars(*rank_, state);
    save_part(state);
  } else {
    auto snapshot =
        run::take_snapshot(*rank_, tokenizer_files_, special_tokens(tokenizer_, config_.model.kind), state);
    checkpoints_->save(state, std::move(snapshot));
  }
  saved_step_ = step_;
  saved_at_ = Clock::now();
  if (wait) finish_checkpoint();
  CheckpointReport report;
  report.step = step_;
  report.path = (directory_ / "checkpoints" / ckpt::checkpoint_name(step_)).string();
  report.snapshot_seconds = seconds_since(begin);
  window_save_seconds_ += report.snapshot_seconds;
  for (auto* observer : parts_.observers) observer->on_checkpoint(report);
}

void Trainer::save_part(const ckpt::TrainingState& state) {
  const std::vector<TensorSpec> all = run::state_tensors(*rank_);
  // The first rank makes the directory; its name travels as bytes.
  std::array<std::uint8_t, 256> name{};
  if (first()) {
    std::uint64_t bytes = 0;
    for (const TensorSpec& spec : all) bytes += spec.bytes();
    // Beside the state the model: at most as wide as the masters.
    bytes += bytes / static_cast<std::uint64_t>(1 + rank_->optimizer().moment_names().size());
    const std::string made = checkpoints_->open_joint(state.step, bytes).filename().string();
    require<InternalError>(made.size() < name.size(), "'{}' is long", made);
    std::copy(made.begin(), made.end(), name.begin());
  }
  rank_->parallel()
      .along(parallel::Group::kWorld)
      .broadcast(TensorView(name.data(), DType::kU8, {static_cast<std::int64_t>(name.size())}), 0,
                 *machine_->stream)
      ->wait();
  part_directory_ = directory_ / "checkpoints" / reinterpret_cast<const char*>(name.data());
  part_state_ = state;
  part_ = std::make_unique<ckpt::JointPart>(part_directory_, ckpt::entries_of(all), run::take_part(*rank_),
                                            first());
}

void Trainer::commit_parts() {
  part_->wait();
  const std::vector<std::string> sums = run::gather_texts(rank_->parallel().along(parallel::Group::kWorld),
                                                          ckpt::sums_text(part_->sums()), *machine_->stream);
  part_.reset();
  if (!first()) return;
  checkpoints_->commit_joint(
      part_state_, part_directory_,
      run::model_of_state(*rank_, tokenizer_files_, special_tokens(tokenizer_, config_.model.kind),
                          part_directory_),
      ckpt::join_sums(sums));
}

void Trainer::finish_checkpoint() {
  if (part_) {
    parts_.seat.apart("writes its part of the checkpoint", [&] { part_->wait(); });
    rank_->parallel().along(parallel::Group::kWorld).barrier();
    commit_parts();
  }
  if (checkpoints_) parts_.seat.apart("completes the checkpoint", [&] { checkpoints_->wait(); });
}

std::unique_ptr<run::StepDump> Trainer::dump_of_step(std::int64_t rows) {
  const auto& dump = parts_.dump;
  if (std::find(dump.steps.begin(), dump.steps.end(), step_ + 1) == dump.steps.end()) return nullptr;
  const auto& options = plan_->options;
  const auto& parallel = rank_->parallel();
  const std::int64_t layers = options.model.config.num_layers;
  if (!dump_)
    dump_ = std::make_unique<ckpt::DumpWriter>(
        dump.directory, ckpt::DumpHeader{.rank = parallel.rank(),
                                         .ranks = parallel.grid().size(),
                                         .layout = fmt::format("{} ranks", parallel.grid().size()),
                                         .compute = std::string(name_of(options.precision.compute)),
                                         .writer = "stoa " + parts_.version,
                                         .layers = layers,
                                         .length = options.length});
  return std::make_unique<run::StepDump>(
      *dump_, *machine_, parallel,
      run::StepDump::Step{step_ + 1, samples_, rows * options.layout.data_ranks(), options.length, layers,
                          dump.only});
}

void Trainer::write_trace() {
  const parallel::ParallelContext& parallel = rank_->parallel();
  const std::vector<std::string> traces = run::gather_texts(
      parallel.along(parallel::Group::kWorld),
      trace_->json(parallel.rank(), run::rank_name(parallel.grid(), parallel.rank())), *machine_->stream);
  if (first()) write_text(directory_ / "trace.json", run::TraceRecorder::join(traces));
}

}  // namespace stoa::train
