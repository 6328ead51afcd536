#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/timing.h"
#include "run/gemm_rate.h"
#include "run/over_ranks.h"
#include "run/replicas.h"
#include "train/contrastive_pass.h"
#include "train/objective_pass.h"
#include "train/teacher_plan.h"

namespace stoa::train {

using watch::RunFinish, watch::StopReason;

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)), config_(parts_.config), plan_(parts_.plan()), start_(Clock::now()) {}
Trainer::~Trainer() = default;

RunFinish Trainer::run() {
  RunFinish finish;
  const auto discard = [&] {
    checkpoints_.reset();  // gives its lock back
    if (directory_) directory_->discard();
  };
  const auto untrained = [&] {
    discard();
    finish.reason = StopReason::kSignal;
    finish.detail = "stopped by a signal before the first step: nothing was trained";
    finish.step = done_.step;
    finish.tokens = done_.tokens;
    return finish;
  };
  try {
    if (!set_up()) return untrained();
    loop(finish);
    if (guard_) guard_->check(done_.step);
    const bool stopped_at_once = finish.reason == StopReason::kSignal && done_.step == beginning_.done.step;
    if (config_.exp_manager.create_checkpoint_callback) {
      if (saved_step_ != done_.step && !stopped_at_once) save(true);
      checkpoints_->finish();
      if (finish.reason == StopReason::kSignal && !stopped_at_once)
        finish.detail += "; a checkpoint was saved";
    }
    if (stopped_at_once && directory_->is_new()) return untrained();
  } catch (const std::exception& error) {
    parts_.seat.on_failure(error.what());
    finish.reason = StopReason::kError;
    finish.detail = error.what();
    if (done_.step == beginning_.done.step && directory_ && directory_->is_new()) {
      discard();  // nothing came of it
      throw;
    }
    close(finish);
    if (announced_)
      for (auto* observer : parts_.observers) observer->on_finish(finish);
    throw;
  }
  close(finish);
  finish.skipped_steps = reports_->skipped_steps();
  finish.used = rank_->arena().touched();
  finish.peak_memory_bytes = peak_resident_bytes();
  for (auto* observer : parts_.observers) observer->on_finish(finish);
  return finish;
}

void Trainer::close(RunFinish& finish) const {
  finish.step = done_.step;
  finish.tokens = done_.tokens;
  finish.seconds = seconds_since(start_);
}

bool Trainer::set_up() {
  const auto path = run_directory(config_);
  require<ConfigError>(path.has_value(),
                       "no run directory: give --output DIR (exp_manager.explicit_log_dir)");
  directory_.emplace(*path);
  if (first()) directory_->make();
  machine_ = std::make_unique<infer::Machine>(parts_.make_machine());
  infer::Machine meta = infer::make_meta_machine(*machine_);
  const run::TrainingOptions& options = plan_.options;
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, options, parts_.seat.rank);
  rank_ = std::make_unique<run::TrainingRank>(*machine_, options, parts_.seat.context(*machine_->device),
                                              scratch);
  beginning_ = begin_run(parts_, *rank_);
  done_ = beginning_.done;
  if (rank_->teacher()) load_teacher(parts_, *rank_);
  if (config_.distill.kept_logits) kept_logits_.emplace(open_kept_logits(parts_));
  if (plan_.options.model.adapters) guard_.emplace(*rank_, directory_->path());
  if (!beginning_.resumed_from.empty()) saved_step_ = done_.step;
  const double gemm_tflops = run::measure_gemm_tflops(*machine_, plan_.options.precision.compute,
                                                      run::quick_shapes(executed_flops(plan_)),
                                                      &rank_->parallel().along(parallel::Group::kWorld));
  checkpoints_.emplace(parts_, *rank_, directory_->path(), beginning_.model);
  if (config_.objective.two_passes()) {
    objective_ = make_objective();
    if (!objective_) return false;
  }
  validation_.emplace(parts_, *rank_, beginning_.best_loss, objective_.get(),
                      kept_logits_ ? &*kept_logits_ : nullptr);
  if (parts_.tasks) tasks_.emplace(parts_, *rank_);
  reports_.emplace(parts_, gemm_tflops, beginning_.skipped_steps);
  start_prefetch();
  next_batch_ = prefetch_->next();  // what is wrong with the data is reported before the run is announced
  if (asked_to_stop()) return false;
  parts_.on_training();
  if (!first()) return true;
  write_text(directory_->path() / "config.yaml", parts_.config_yaml);
  const bool samples = config_.trainer.val_check_interval > 0 && !config_.trainer.sample_prompts.empty();
  if (samples && !rank_->passes())
    parts_.console.warn(
        "trainer.sample_prompts: no text is sampled, because no rank of this layout holds the whole model");
  announced_ = true;
  const watch::RunStart start = describe_start(parts_, *rank_, beginning_, gemm_tflops);
  for (auto* observer : parts_.observers) observer->on_start(start);
  return true;
}

std::unique_ptr<LossPass> Trainer::make_objective() {
  const tune::ObjectiveConfig& objective = config_.objective;
  const data::DatasetTriple& data = parts_.inputs->data.datasets;
  if (objective.embeds())
    return std::make_unique<ContrastivePass>(
        *rank_,
        ContrastivePass::Options{objective.temperature, parts_.inputs->data.compared, plan_.batch.largest()});
  const auto chats = [](const auto& set) { return dynamic_cast<const tune::ChatDataset*>(set.get()); };
  auto pass = std::make_unique<ObjectivePass>(
      *rank_, objective, ObjectivePass::Data{chats(data.train), chats(data.validation), data.sources});
  const bool fresh = beginning_.resumed_from.empty(), other = fresh && objective.reference_model;
  if (first() && objective.refers() && fresh)
    parts_.console.line("computing what the reference model says of the data, once");
  if (other) load_reference(parts_, *rank_);
  if (!pass->refer(directory_->path(), !fresh, [this] { return asked_to_stop(); })) return nullptr;
  if (other) load_start(parts_, *rank_);
  return pass;
}

void Trainer::start_prefetch() {
  const data::Dataset* train = parts_.inputs->data.datasets.train.get();
  const std::int64_t last = plan_.batch.samples_after(plan_.steps);
  // The background thread keeps its own count of samples: batch number n is this rank's part of step n's
  // global batch.
  auto consumed = std::make_shared<std::int64_t>(done_.samples);
  const run::Layout& layout = plan_.options.layout;
  prefetch_ = std::make_unique<data::Prefetcher>(
      done_.step, 2,
      [train, &plan = plan_, last, consumed, kept = kept_logits_ ? &*kept_logits_ : nullptr,
       ranks = layout.data_ranks(),
       own = layout.data_rank(parts_.seat.rank)](std::int64_t, data::Batch& out, const std::stop_token&) {
        if (*consumed >= last) return false;
        const std::vector<std::int64_t> rows = samples_of_step(plan, *train, *consumed);
        data::fill_batch(*train, rows_of_rank(rows, plan.options.micro_batch, ranks, own), out);
        if (kept) kept->fill(out);
        *consumed += static_cast<std::int64_t>(rows.size());
        return true;
      });
}

bool Trainer::asked_to_stop() {
  double asked = parts_.stop.stop_requested() ? 1 : 0;
  run::add_over_ranks(*rank_, std::span(&asked, 1), parallel::Group::kWorld);
  return asked > 0;
}

Trainer::Agreement Trainer::agree(std::int64_t own_tokens) {
  const auto& parallel = rank_->parallel();
  // Ranks of one pipeline, tensor group and context group have the same rows: one of them counts.
  const bool counts = parallel.along(parallel::Group::kModel).rank() == 0 &&
                      parallel.coordinate(parallel::Axis::kContext) == 0;
  const bool late = config_.trainer.max_time && seconds_since(start_) >= config_.trainer.max_time->seconds;
  const double interval = config_.exp_manager.checkpoint.time_interval();
  const bool save = config_.exp_manager.create_checkpoint_callback && interval > 0 &&
                    saved_step_ != done_.step && done_.step > beginning_.done.step &&
                    seconds_since(saved_at_) >= interval;
  std::array<std::int64_t, 5> sums{counts ? own_tokens : 0, parts_.stop.stop_requested() ? 1 : 0,
                                   first() && late ? 1 : 0, checkpoints_->part_is_written() ? 1 : 0,
                                   first() && save ? 1 : 0};
  parallel.along(parallel::Group::kWorld)
      .all_reduce(TensorView(sums.data(), DType::kI64, {static_cast<std::int64_t>(sums.size())}),
                  comm::ReduceOp::kSum, *machine_->stream)
      ->wait();
  return {sums[0], sums[1], sums[2], sums[3], sums[4]};
}

void Trainer::loop(RunFinish& finish) {
  finish.reason = StopReason::kDone;
  finish.detail = fmt::format("{} steps done", plan_.steps);
  saved_at_ = Clock::now();
  if (config_.trainer.val_check_interval > 0 && done_.step == 0) validate();
  if (tasks_ && done_.step == 0) ask_tasks();
  while (done_.step < plan_.steps) {
    const auto begin = Clock::now();
    data::Batch* batch = next_batch_ ? std::exchange(next_batch_, nullptr) : prefetch_->next();
    require<InternalError>(batch != nullptr, "the data ended before the last step");
    const double data_seconds = seconds_since(begin);
    const Agreement all = agree(batch->valid_tokens);
    if (all.written == plan_.options.layout.grid.size()) checkpoints_->commit_parts();
    if (all.stop > 0) {
      finish.reason = StopReason::kSignal;
      finish.detail = fmt::format("stopped by a signal after step {}", done_.step);
      return;
    }
    if (done_.step > beginning_.done.step && all.time > 0) {
      finish.reason = StopReason::kTime;
      finish.detail = fmt::format("trainer.max_time reached after step {}", done_.step);
      return;
    }
    if (all.save > 0) save(false);
    batch->valid_tokens = all.tokens;
    train_step(*batch, data_seconds);
    if (due(config_.trainer.check_weight_hash_across_dp_replicas_interval.value_or(0)))
      run::compare_replicas(*rank_, done_.step);
    if (due(config_.trainer.val_check_interval) ||
        (done_.step == plan_.steps && config_.trainer.val_check_interval > 0)) {
      run::compare_replicas(*rank_, done_.step);
      validate();
    }
    if (tasks_ && (due(config_.trainer.task_interval()) || done_.step == plan_.steps)) ask_tasks();
    const std::int64_t every =
        config_.exp_manager.checkpoint.every_n_train_steps.value_or(config_.trainer.val_check_interval);
    if (config_.exp_manager.create_checkpoint_callback && due(every)) save(false);
    if (parts_.stop_after && done_.step >= *parts_.stop_after) {
      finish.detail = fmt::format("stopped after step {}, as requested", done_.step);
      return;
    }
  }
}

void Trainer::train_step(data::Batch& batch, double data_seconds) {
  const auto begin = Clock::now();
  std::optional<LossPass::Measure> measure;
  if (objective_) measure = objective_->weigh(batch);
  const auto& traced = config_.trainer.trace_steps;
  const auto dump = dump_of_step(batch.rows);
  const bool trace = std::find(traced.begin(), traced.end(), done_.step + 1) != traced.end();
  if (trace && !trace_) {  // the ranks' clocks begin together
    rank_->parallel().along(parallel::Group::kWorld).barrier();
    const infer::Machine& machine = rank_->machine();
    const bool on_host = machine.device->kind() == DeviceKind::kHost;
    trace_ = std::make_unique<run::TraceRecorder>(on_host ? nullptr : machine.stream.get());
  }
  rank_->step(batch, done_.samples, trace ? trace_.get() : nullptr, dump.get());
  if (trace) write_trace();
  const std::int64_t rows = batch.rows * plan_.options.layout.data_ranks();
  const std::int64_t tokens = rows * batch.sequence_length;
  ++done_.step;
  done_.samples += rows;
  done_.tokens += tokens;
  std::optional<double> divergence;
  if (config_.distill.active()) divergence = rank_->read_divergence();
  reports_->report(done_, rank_->read_scalars(), tokens, seconds_since(begin) + data_seconds, data_seconds,
                   measure, divergence);
}

void Trainer::validate() {
  const auto report = validation_->run(done_, [this] { return asked_to_stop(); });
  if (!report) return;
  for (auto* observer : parts_.observers) observer->on_validation(*report);
  validation_->draw_samples(done_.step);
}

void Trainer::ask_tasks() {
  const auto report = tasks_->run(done_);
  if (!report) return;
  for (auto* observer : parts_.observers) observer->on_tasks(*report);
}

void Trainer::save(bool wait) {
  const auto figures = tasks_ ? tasks_->figures_of(done_.step) : std::vector<watch::TaskFigure>();
  const watch::CheckpointReport report = checkpoints_->save(done_, validation_->losses(), figures, wait);
  saved_step_ = done_.step;
  saved_at_ = Clock::now();
  reports_->add_save(report.snapshot_seconds);
  for (auto* observer : parts_.observers) observer->on_checkpoint(report);
}

std::unique_ptr<run::StepDump> Trainer::dump_of_step(std::int64_t rows) {
  const auto& dump = parts_.dump;
  const std::int64_t step = done_.step + 1;
  if (std::find(dump.steps.begin(), dump.steps.end(), step) == dump.steps.end()) return nullptr;
  const auto& options = plan_.options;
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
      run::StepDump::Step{step, done_.samples, rows * options.layout.data_ranks(), options.length, layers,
                          dump.only});
}

void Trainer::write_trace() {
  const parallel::ParallelContext& parallel = rank_->parallel();
  const std::vector<std::string> traces = run::gather_texts(
      parallel.along(parallel::Group::kWorld),
      trace_->json(parallel.rank(), run::rank_name(parallel.grid(), parallel.rank())), *machine_->stream);
  if (first()) write_text(directory_->path() / "trace.json", run::TraceRecorder::join(traces));
}

}  // namespace stoa::train
