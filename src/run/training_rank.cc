#include "run/training_rank.h"

#include <algorithm>

#include "model/init.h"
#include "parallel/meta_contexts.h"
#include "run/constants.h"
#include "run/host_window.h"
#include "schedule/validate.h"

namespace stoa::run {
namespace {

constexpr auto kSlots = static_cast<std::int64_t>(ops::StepSlot::kCount);

model::ChunkOptions chunk_options(const TrainingOptions& o, const parallel::ParallelContext& parallel) {
  model::ChunkOptions chunk;
  chunk.place = {parallel.coordinate(parallel::Axis::kTensor), parallel.degree(parallel::Axis::kTensor),
                 o.layout.sequence_parallel};
  chunk.layers = o.model.config.num_layers;
  chunk.precision = o.precision;
  chunk.tokens = o.micro_batch * o.length;
  chunk.positions = o.length;
  chunk.recompute = model::recompute_options(o.model.config.recompute, o.model.config.num_layers);
  return chunk;
}

TensorSpec bytes_spec(const char* name, std::size_t bytes) {
  return {name, DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

}  // namespace

TrainingRank::TrainingRank(Machine& machine, const TrainingOptions& options,
                           parallel::ParallelContext parallel, std::optional<std::size_t> scratch_bytes)
    : machine_(machine), options_(options), parallel_(std::move(parallel)), arena_(*machine.device) {
  chunk_ = std::make_unique<model::Chunk>(options_.model, chunk_options(options_, parallel_));
  parameters_ =
      std::make_unique<optim::ParameterStore>(arena_, chunk_->params().specs(), options_.precision, true);
  gradients_ = std::make_unique<optim::GradientStore>(arena_, chunk_->params(), options_.precision);
  optimizer_ = std::make_unique<optim::Optimizer>(arena_, *parameters_, *gradients_, options_.optim,
                                                  options_.precision);
  const ChunkConstants constants(arena_, *chunk_);
  const int in_flight =
      schedule::microbatches_in_flight(step_schedule(options_.layout, options_.microbatches), 0);
  for (int slot = 0; slot < in_flight; ++slot) {
    slot_memory_.push_back(
        arena_.declare(MemoryCategory::kActivations, bytes_spec("activations", chunk_->saved_bytes())));
    batches_.emplace_back(arena_, options_.micro_batch, options_.length, options_.packed);
  }
  state_ = arena_.declare(MemoryCategory::kScalars, {"step state", DType::kF64, Shape{kSlots}});
  if (options_.evaluation) {
    evaluation_state_ =
        arena_.declare(MemoryCategory::kScalars, {"evaluation state", DType::kF64, Shape{kSlots}});
    losses_ = arena_.declare(MemoryCategory::kScalars, {"evaluation losses", options_.precision.vectors(),
                                                        Shape{options_.micro_batch * options_.length}});
  }
  if (options_.sample_context > 0)
    decoder_ = std::make_unique<Decoder>(
        arena_, options_.model, options_.precision,
        Decoder::Options{options_.sample_context, std::min<std::int64_t>(options_.sample_context, 128)});
  if (scratch_bytes)
    scratch_memory_ = arena_.declare(MemoryCategory::kScratch, bytes_spec("scratch", *scratch_bytes));
  arena_.commit();

  scratch_ =
      scratch_bytes ? std::make_unique<Scratch>(arena_.view(scratch_memory_)) : std::make_unique<Scratch>();
  ops_ = std::make_unique<ops::OpContext>(ops::OpContext{*machine.backend, *machine.stream, *scratch_});
  for (auto id : slot_memory_) slots_.push_back(chunk_->make_slot(arena_.view(id)));
  constants.fill(machine_, arena_, *chunk_, options_.length);
}

std::size_t TrainingRank::measure_scratch(Machine& meta, const TrainingOptions& options, int rank_number) {
  require<InternalError>(meta.device->kind() == DeviceKind::kMeta, "a dry run needs a meta machine");
  TrainingRank rank(meta, options,
                    parallel::make_meta_context(options.layout.grid, rank_number, *meta.device),
                    std::nullopt);
  rank.dry_run();
  return rank.scratch_->high_water();
}

void TrainingRank::dry_run() {
  optimizer_->reset(*ops_);
  run_step(
      1, 1, 1, [&](int, int slot) -> const nn::BatchView& { return batches_[slot].dry(); }, nullptr);
  if (options_.evaluation) evaluate_rows(batches_[0].dry());
  if (decoder_) decoder_->dry_run(decoder_parts());
}

void TrainingRank::initialize() {
  for (std::size_t p = 0; p < chunk_->params().specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    write_tensor(machine_, parameters_->master(id), [&](TensorView host) {
      model::initialize(chunk_->params().specs()[p], static_cast<std::uint64_t>(options_.model.config.seed),
                        host, *machine_.pool);
    });
  }
  optimizer_->refresh_values(*ops_);
  optimizer_->reset(*ops_);
  StepScalars scalars;
  scalars.slots.assign(kSlots, 0.0);
  scalars.slots[static_cast<std::size_t>(ops::StepSlot::kLossScale)] = options_.initial_loss_scale;
  scalars.slots[static_cast<std::size_t>(ops::StepSlot::kHysteresis)] =
      static_cast<double>(options_.loss_scale.hysteresis);
  write_scalars(scalars);
}

void TrainingRank::step(const data::Batch& batch, std::int64_t first_sample, TraceRecorder* trace) {
  require<InternalError>(batch.rows % options_.micro_batch == 0, "{} rows in microbatches of {}", batch.rows,
                         options_.micro_batch);
  run_step(
      batch.rows / options_.micro_batch, static_cast<double>(batch.valid_tokens),
      static_cast<double>(batch.rows),
      [&](int microbatch, int slot) -> const nn::BatchView& {
        const std::int64_t row = microbatch * options_.micro_batch;
        return batches_[slot].stage(batch, row, first_sample + row, *machine_.stream);
      },
      trace);
}

void TrainingRank::run_step(std::int64_t microbatches, double tokens, double samples,
                            const StageMicrobatch& stage, TraceRecorder* trace) {
  if (microbatches_ != microbatches) {
    schedule::Schedule steps = step_schedule(options_.layout, microbatches);
    require<InternalError>(schedule::microbatches_in_flight(steps, 0) <= static_cast<int>(slots_.size()),
                           "the schedule holds more microbatches than slots were declared");
    actions_ = std::move(steps.ranks[0]);
    microbatches_ = static_cast<int>(microbatches);
  }
  ops_->observer = trace;
  const TensorView state = arena_.view(state_);
  ops::run(*ops_, ops::BeginStep{state, tokens});
  Executor executor({*ops_, parallel_, *chunk_, slots_, *parameters_, *gradients_, *optimizer_, state,
                     static_cast<std::uint64_t>(options_.model.config.seed), trace});
  executor.run(
      actions_, stage,
      {state, options_.max_norm, options_.rate, options_.weight_decay, options_.loss_scale, samples});
  ops_->observer = nullptr;
}

void TrainingRank::evaluate_rows(const nn::BatchView& batch) {
  Scratch::Frame frame(*scratch_);
  nn::Pass pass{*ops_, parallel_, *parameters_, nullptr, batch, {}, 0, false, nullptr, {}};
  const TensorView losses = arena_.view(losses_);
  model::Chunk::Outputs outputs;
  outputs.losses = losses;
  chunk_->infer(pass, {}, outputs);
  ops::run(*ops_, ops::SumLosses{losses, batch.loss_mask, arena_.view(evaluation_state_)});
}

TrainingRank::LossSum TrainingRank::evaluate(const data::Batch& batch) {
  require<InternalError>(options_.evaluation, "no memory was declared to evaluate with");
  const TensorView state = arena_.view(evaluation_state_);
  machine_.device->fill_zero(state.data, state.bytes(), *machine_.stream);
  for (std::int64_t row = 0; row < batch.rows; row += options_.micro_batch)
    evaluate_rows(batches_[0].stage(batch, row, row, *machine_.stream));
  LossSum sum;
  read_tensor(machine_, state, [&](TensorView host) {
    sum.loss = host.as<double>()[static_cast<std::size_t>(ops::StepSlot::kLossSum)];
  });
  sum.tokens = static_cast<double>(batch.valid_tokens);
  return sum;
}

StepScalars TrainingRank::read_scalars() {
  StepScalars scalars;
  read_tensor(machine_, arena_.view(state_),
              [&](TensorView host) { scalars.slots.assign(host.as<double>(), host.as<double>() + kSlots); });
  return scalars;
}

void TrainingRank::write_scalars(const StepScalars& scalars) {
  write_tensor(machine_, arena_.view(state_), [&](TensorView host) {
    std::copy(scalars.slots.begin(), scalars.slots.end(), host.as<double>());
  });
}

}  // namespace stoa::run
