#include "run/training_rank.h"

#include <algorithm>

#include "base/console.h"
#include "device/arena.h"
#include "device/native_stream.h"
#include "infer/constants.h"
#include "infer/engine/paged_decoder.h"
#include "infer/host_window.h"
#include "model/freeze.h"
#include "model/init.h"
#include "parallel/meta_contexts.h"
#include "run/offload.h"
#include "schedule/validate.h"

namespace stoa::run {
namespace {

constexpr auto kSlots = static_cast<std::int64_t>(ops::StepSlot::kCount);

// Tokens of a microbatch on one rank.
std::int64_t local_tokens(const TrainingOptions& o) {
  return o.micro_batch * o.length / o.layout.grid.degree(grid::Axis::kContext);
}

model::ChunkOptions chunk_options(const TrainingOptions& o, const parallel::ParallelContext& parallel,
                                  const PlacedChunk& placed) {
  model::ChunkOptions chunk;
  chunk.place = {parallel.coordinate(parallel::Axis::kTensor), parallel.degree(parallel::Axis::kTensor),
                 o.layout.sequence_parallel};
  chunk.experts = o.layout.expert_place(parallel.rank());
  chunk.first_layer = placed.first_layer;
  chunk.layers = placed.layers;
  chunk.embedding = placed.embedding;
  chunk.head = placed.head;
  chunk.precision = o.precision;
  chunk.fp8 = true;
  chunk.tokens = local_tokens(o);
  chunk.positions = o.length;
  chunk.recompute = model::recompute_options(o.model.config.recompute, placed.layers);
  return chunk;
}

MaskedOptions masked_options(const TrainingOptions& o) {
  const model::ModelConfig& c = o.model.config;
  const bool picks = model::traits(c).picks_tokens();
  const bool averaged = c.task.embeds() && c.pooling() == model::Pooling::kMean;
  return {.used = picks,
          .sentences = c.judges_sentences(),
          .one_per_row = picks && c.task.one_label_per_row(),
          .all_asked = c.task.type == model::Task::kQuestionAnswering || averaged,
          .vector = c.task.embeds() ? c.hidden_size : 0,
          .averaged = averaged,
          .multiple = o.layout.sequence_parallel ? o.layout.grid.degree(grid::Axis::kTensor) : 1};
}

// An evaluation processes this many microbatches at a time.
std::int64_t evaluation_round(const Layout& layout) {
  return layout.pipeline_ranks() == 1 ? 1 : 4 * layout.pipeline_ranks();
}

// A full round needs at least the memory of a shorter one (schedule/holdings_test.cc).
std::optional<schedule::Schedule> evaluation_of(const TrainingOptions& o) {
  if (!o.evaluation && !o.teacher) return std::nullopt;
  return evaluation_schedule(o.layout, evaluation_round(o.layout));
}

schedule::Holdings held(const schedule::Schedule& step, const std::optional<schedule::Schedule>& evaluation,
                        int stage) {
  schedule::Holdings most = schedule::holdings_of(step, stage);
  if (evaluation) most.enlarge(schedule::holdings_of(*evaluation, stage));
  return most;
}

// Limits of the passes over texts that are drawn or scored between steps, one after the other or many at
// once.
infer::PassLimits sample_limits(const TrainingOptions& o, bool many) {
  const std::int64_t virtual_tokens = o.model.config.peft.virtual_count();  // among those of a row
  infer::EngineUse use;
  use.context = o.sample_context - virtual_tokens;
  use.sequences = many ? o.sample_texts : 1;
  use.pass_tokens = many ? 512 : 128;
  use.scored = many ? 128 : 1;
  infer::PassLimits limits = infer::pass_limits(o.model, o.precision.compute, use);
  limits.context = o.sample_context;
  return limits;
}

// The actions of a dry run: those of the first microbatch, so that every kind occurs once.
std::vector<schedule::Action> of_first_microbatch(const std::vector<schedule::Action>& actions) {
  std::vector<schedule::Action> out;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(out),
               [](const schedule::Action& a) { return a.microbatch <= 0; });
  return out;
}

// The operation at which the scratch stack last grew.
class FullestOperation final : public ops::OpObserver {
 public:
  explicit FullestOperation(const Scratch& scratch) : scratch_(scratch) {}
  void before(const char* op, double) override {
    if (scratch_.high_water() <= most_) return;
    most_ = scratch_.high_water();
    name_ = op;
  }
  void after(const char*) override {}
  const std::string& name() const { return name_; }

 private:
  const Scratch& scratch_;
  std::size_t most_ = 0;
  std::string name_;
};

void require_within(std::size_t limit, const MemoryTable& table) {
  const std::size_t total = device_bytes(table);
  const auto text = [](std::size_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  require<DeviceError>(
      total <= limit,
      "the run needs {} of device memory, {} more than trainer.memory_limit_gb allows ({}):{}\n"
      "Smaller, cheapest first: model.activations_checkpoint_granularity=selective, a smaller "
      "model.micro_batch_size, "
      "model.activations_checkpoint_granularity=full, model.cpu_offloading=true, model.zero_stage and "
      "pipelines over "
      "more ranks. 'stoa plan memory' shows the effect of each",
      text(total), text(total - std::min(total, limit)), text(limit), memory_lines(table));
}

// Hands the logits of a microbatch to a sink.
class LogitsProbe final : public nn::Probe {
 public:
  LogitsProbe(infer::Machine& machine, std::int64_t row, const TrainingRank::LogitsSink& sink)
      : machine_(machine), row_(row), sink_(sink) {}
  void forward(std::string_view, std::string_view, TensorView, nn::Columns) override {}
  void gradient(std::string_view, std::string_view, TensorView, nn::Columns) override {}
  void logits(TensorView view, std::int64_t first, std::int64_t) override {
    infer::read_tensor(machine_, view, [&](TensorView host) { sink_(row_, first, host); });
  }

 private:
  infer::Machine& machine_;
  const std::int64_t row_;
  const TrainingRank::LogitsSink& sink_;
};

TensorSpec bytes_spec(const char* name, std::size_t bytes) {
  return {name, DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

// The trained tensors of the whole model if a rank holds only some of its layers or experts; else none.
std::vector<optim::CanonicalTensor> tensors_of_whole_model(const TrainingOptions& o) {
  std::vector<optim::CanonicalTensor> tensors;
  if (o.layout.grid.degree(parallel::Axis::kPipeline) == 1 && o.layout.expert_place(0).size == 1)
    return tensors;
  for (const auto& tensor : model::canonical_tensors(o.model))
    if (tensor.trained) tensors.push_back({tensor.name, tensor.shape.elements()});
  return tensors;
}

optim::DataParallel data_parallel(const TrainingOptions& o, const parallel::ParallelContext& parallel,
                                  Stream& stream, const schedule::Holdings& holdings) {
  optim::DataParallel data{parallel, stream};
  data.zero_stage = o.layout.zero_stage;
  data.bucket_bytes = o.layout.bucket_bytes;
  data.overlap = o.layout.overlap_grad_reduce;
  // With a split backward a block's gradients are written at two times: they are held until both are done.
  const bool split =
      std::any_of(holdings.stashes.begin(), holdings.stashes.end(), [](int n) { return n > 0; });
  data.each_microbatch = (o.layout.reduce_each_microbatch || o.microbatches == 1) && !split;
  data.reduce_type = o.layout.grad_reduce_type;
  return data;
}

}  // namespace

TrainingRank::TrainingRank(infer::Machine& machine, const TrainingOptions& options,
                           parallel::ParallelContext parallel, std::optional<std::size_t> scratch_bytes)
    : machine_(machine), options_(options), parallel_(std::move(parallel)), arena_(*machine.device) {
  require<InternalError>(parallel_.grid().size() == options_.layout.grid.size(),
                         "a context of {} ranks for a layout of {}", parallel_.grid().size(),
                         options_.layout.grid.size());
  const parallel::ExpertPlace experts = options_.layout.expert_place(parallel_.rank());
  require<ConfigError>(
      !records(*machine.stream) || !options_.model.config.moe.num_moe_experts || !experts.split(),
      "CUDA option graphs: the experts of a layer are distributed over {} ranks, and the host waits for the "
      "row counts of the all-to-all. Leave graphs out, or give every rank all experts of its layers "
      "(tensor_model_parallel_size 1, expert_model_parallel_size 1)",
      experts.members());
  make_chunks();
  parameters_ = std::make_unique<optim::ParameterStore>(
      arena_, params_, options_.precision, data_parallel(options_, parallel_, *machine.stream, holdings_));
  gradients_ = std::make_unique<optim::GradientStore>(arena_, params_, options_.precision, *parameters_);
  optimizer_ = std::make_unique<optim::Optimizer>(arena_, *parameters_, *gradients_, options_.optim,
                                                  options_.precision, tensors_of_whole_model(options_));
  make_amax_history();
  std::vector<infer::ChunkConstants> constants;
  for (const auto& chunk : chunks_) constants.emplace_back(arena_, *chunk);
  ring_ = make_offload_ring(arena_, chunks_);
  for (std::size_t c = 0, own = 0; c < static_cast<std::size_t>(placement_.chunks()); ++c)
    if (placement_.rank_of_chunk[c] == stage())
      local_.emplace_back(arena_, static_cast<int>(c), *chunks_[own++], holdings_, *ring_);
  // Only the head reads what was kept of a teacher.
  const std::int64_t kept =
      options_.kept && placement_.rank_of_chunk.back() == stage() ? options_.kept->top : 0;
  for (int place = 0; place < holdings_.batches; ++place)
    batches_.emplace_back(arena_, options_.micro_batch, options_.length, options_.packed,
                          options_.layout.context_place(parallel_.rank()), masked_options(options_),
                          options_.model.config.source_length(), kept);
  outbox_ = std::make_unique<Outbox>(arena_, chunks_.front()->boundary(), holdings_.sends);
  if (options_.teacher)
    teacher_ = std::make_unique<TeacherRank>(
        arena_, *options_.teacher,
        TeacherRank::Place{options_.layout, parallel_, options_.precision, local_tokens(options_),
                           options_.length, options_.microbatches},
        *ring_, evaluation_schedule(options_.layout, evaluation_round(options_.layout)));
  state_ = arena_.declare(MemoryCategory::kScalars, {"step state", DType::kF64, Shape{kSlots}});
  if (options_.distillation())
    divergence_ = arena_.declare(MemoryCategory::kScalars, {"divergence sum", DType::kF64, Shape{kSlots}});
  if (options_.evaluation) {
    evaluation_state_ =
        arena_.declare(MemoryCategory::kScalars, {"evaluation state", DType::kF64, Shape{kSlots}});
    if (placement_.rank_of_chunk.back() == stage())
      losses_ = arena_.declare(MemoryCategory::kScalars, {"evaluation losses", options_.precision.vectors(),
                                                          Shape{local_tokens(options_)}});
    const model::ModelConfig& config = options_.model.config;
    const std::int64_t classes = config.task.embeds() ? config.hidden_size : config.task.classes();
    if (losses_ && classes > 0 && model::traits(options_.model.config).picks_tokens()) {
      const MaskedOptions masked = masked_options(options_);
      const std::int64_t asked =
          masked.one_per_row && !masked.all_asked ? options_.micro_batch : local_tokens(options_);
      answers_ = arena_.declare(MemoryCategory::kScalars,
                                {"evaluation answers", options_.precision.vectors(), Shape{asked, classes}});
    }
  }
  if (options_.sample_context > 0) {
    // Ranks of a context group read the same text.
    const bool many = options_.sample_texts > 1 && parallel_.degree(parallel::Axis::kContext) == 1;
    passes_ = std::make_unique<infer::PagedModel>(
        arena_, infer::PagedModel::Options{options_.model, options_.precision, sample_limits(options_, many)},
        [this] {
          return infer::PassParts{machine_, *ops_, parallel_, *chunks_.front(), *parameters_};
        });
  }
  if (scratch_bytes)
    scratch_memory_ = arena_.declare(MemoryCategory::kScratch, bytes_spec("scratch", *scratch_bytes));
  if (scratch_bytes && options_.memory_limit) require_within(*options_.memory_limit, arena_.declared());
  arena_.commit();

  scratch_ =
      scratch_bytes ? std::make_unique<Scratch>(arena_.view(scratch_memory_)) : std::make_unique<Scratch>();
  ops_ = std::make_unique<ops::OpContext>(
      ops::OpContext{*machine.backend, *machine.stream, *scratch_, nullptr, machine.device.get()});
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    constants[c].fill(machine_, arena_, *chunks_[c], options_.length);
  if (teacher_) teacher_->fill_constants(machine);
  // If ranks of one process have a GPU each, a driver that allocates memory on one GPU may wait for work on
  // all of them, which may wait for the allocating rank: so none communicates before all have allocated.
  parallel_.along(parallel::Group::kWorld).barrier();
}

void TrainingRank::make_chunks() {
  const std::vector<PlacedChunk> placed = place_chunks(options_.layout, options_.model.config.num_layers);
  const model::ModelConfig& config = options_.model.config;
  const model::Traits traits = model::traits(config);
  const parallel::TensorPlace tensor{parallel_.coordinate(parallel::Axis::kTensor),
                                     parallel_.degree(parallel::Axis::kTensor)};
  const parallel::HeadPart heads =
      parallel::head_part(config.num_attention_heads, config.query_groups(), tensor);
  require<ConfigError>(!traits.picks_tokens() || options_.layout.grid.degree(parallel::Axis::kContext) == 1,
                       "context_parallel_size {} with kind bert or a labelled task: rows have different "
                       "lengths, so that their "
                       "tokens cannot be distributed evenly; give 1",
                       options_.layout.grid.degree(parallel::Axis::kContext));
  require<ConfigError>(!config.linear.any() || options_.layout.grid.degree(parallel::Axis::kContext) == 1,
                       "context_parallel_size {} with linear attention: its state passes along a text, which "
                       "is not split over ranks; give 1",
                       options_.layout.grid.degree(parallel::Axis::kContext));
  parallel::check_context(options_.layout.context_place(parallel_.rank()), options_.length, heads.heads.count,
                          heads.groups.count);
  schedule::Schedule step = step_schedule(options_, options_.microbatches);
  placement_.trained_from = step.placement.trained_from;
  holdings_ = held(step, evaluation_of(options_), stage());
  step_actions_ = std::move(step.ranks[static_cast<std::size_t>(stage())]);
  step_microbatches_ = options_.microbatches;
  const std::vector<std::int64_t> offloaded = offloaded_layers(placed, config.recompute.offload);
  nn::ParamId embedding;
  for (const PlacedChunk& place : placed) {
    placement_.rank_of_chunk.push_back(place.rank);
    if (place.rank != stage()) continue;
    model::ChunkOptions chunk = chunk_options(options_, parallel_, place);
    chunk.recompute.offloaded = offloaded[static_cast<std::size_t>(place.chunk)];
    chunk.split_backward = holdings_.stashes[place.chunk] > 0;
    chunk.trained_before = place.chunk > placement_.trained_from;
    chunk.tied_apart = placed.front().rank != placed.back().rank && options_.model.config.ties_head();
    chunks_.push_back(std::make_unique<model::Chunk>(options_.model, chunk, &params_, embedding));
    if (place.embedding) embedding = chunks_.back()->token_embedding();
  }
  require<ConfigError>(traits.untrainable.empty(), "{}", traits.untrainable);
  require<ConfigError>(options_.sample_context == 0 || traits.continues_text,
                       "encoders and classifiers do not continue text: leave out trainer.sample_prompts and "
                       "trainer.eval_tasks");
  require<ConfigError>(
      options_.sample_context == 0 || placed.size() == 1,
      "text is sampled during training on one pipeline stage of one chunk only, the layout has "
      "{} chunks: leave out trainer.sample_prompts",
      placed.size());
  require<ConfigError>(options_.sample_context == 0 || tensor.size == 1,
                       "text is sampled on one rank: tensor_model_parallel_size is {}, expected 1",
                       tensor.size);
}

void TrainingRank::make_amax_history() {
  const model::Fp8Config& config = options_.model.config.fp8;
  if (!config.delayed()) return;
  std::vector<nn::ParamId> layers;
  for (const auto& chunk : chunks_)
    layers.insert(layers.end(), chunk->eight_bit_layers().begin(), chunk->eight_bit_layers().end());
  if (layers.empty()) return;
  amax_ = std::make_unique<optim::AmaxHistory>(
      arena_, params_, layers,
      optim::AmaxHistoryOptions{config.fp8_amax_history_len,
                                config.fp8_amax_compute_algo == model::Fp8AmaxAlgorithm::kMostRecent},
      options_.precision.vectors(), parallel_);
  for (const auto& chunk : chunks_) chunk->scale_by(*amax_);
}

schedule::Schedule step_schedule(const TrainingOptions& o, std::int64_t microbatches) {
  const int trained_from = first_trained_chunk(place_chunks(o.layout, o.model.config.num_layers),
                                               model::first_trained_layer(o.model));
  return step_schedule(o.layout, microbatches, trained_from);
}

std::vector<schedule::Holdings> most_held(const TrainingOptions& options) {
  const schedule::Schedule step = step_schedule(options, options.microbatches);
  const auto evaluation = evaluation_of(options);
  std::vector<schedule::Holdings> most;
  for (int stage = 0; stage < options.layout.pipeline_ranks(); ++stage)
    most.push_back(held(step, evaluation, stage));
  return most;
}

std::size_t TrainingRank::measure_scratch(infer::Machine& meta, const TrainingOptions& options,
                                          int rank_number) {
  require<InternalError>(meta.device->kind() == DeviceKind::kMeta, "a dry run needs a meta machine");
  TrainingRank rank(meta, options,
                    parallel::make_meta_context(options.layout.grid, rank_number, *meta.device),
                    std::nullopt);
  return rank.measure_scratch();
}

std::size_t TrainingRank::measure_scratch(std::string* fullest) {
  require<InternalError>(machine_.device->kind() == DeviceKind::kMeta && !scratch_memory_,
                         "scratch is measured on a meta machine, before any is declared");
  FullestOperation watch(*scratch_);
  ops_->observer = &watch;
  optimizer_->reset(*ops_);
  if (amax_) amax_->reset(*ops_);
  const StageMicrobatch stage = [&](int, int place) -> const nn::BatchView& {
    return taught(batches_[place].dry(), 0, place);
  };
  if (teacher_) ask_teacher(1, stage);
  run_step(of_first_microbatch(step_actions(options_.microbatches)), 1, 1, stage, nullptr);
  if (options_.evaluation)
    executor(arena_.view(evaluation_state_), 0, nullptr)
        .evaluate(of_first_microbatch(evaluation_actions(1)), stage, evaluation_losses(),
                  {evaluation_answers(), {}});
  if (passes_) passes_->dry_run();
  ops_->observer = nullptr;
  if (fullest) *fullest = watch.name();
  return scratch_->high_water();
}

void TrainingRank::initialize() {
  for (std::size_t p = 0; p < params_.specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    infer::write_tensor(machine_, parameters_->master(id), [&](TensorView host) {
      model::initialize(params_.specs()[p], static_cast<std::uint64_t>(options_.model.config.seed), host,
                        *machine_.pool, parameters_->held(id).flat);
    });
  }
  optimizer_->refresh_values(*ops_);
  optimizer_->reset(*ops_);
  if (amax_) amax_->reset(*ops_);
  StepScalars scalars;
  scalars.slots.assign(kSlots, 0.0);
  scalars.slots[static_cast<std::size_t>(ops::StepSlot::kLossScale)] = options_.initial_loss_scale;
  scalars.slots[static_cast<std::size_t>(ops::StepSlot::kHysteresis)] =
      static_cast<double>(options_.loss_scale.hysteresis);
  write_scalars(scalars);
}

void TrainingRank::step(const data::Batch& batch, std::int64_t first_sample, TraceRecorder* trace,
                        StepDump* dump) {
  if (dump) dump->begin(*parameters_, read_scalars()[ops::StepSlot::kLossScale]);
  require<InternalError>(batch.rows % options_.micro_batch == 0, "{} rows in microbatches of {}", batch.rows,
                         options_.micro_batch);
  const std::int64_t ranks = options_.layout.data_ranks(), own = options_.layout.data_rank(parallel_.rank());
  if (teacher_)
    ask_teacher(batch.rows / options_.micro_batch, [&](int microbatch, int place) -> const nn::BatchView& {
      return batches_[place].stage(batch, microbatch * options_.micro_batch, 0, *machine_.stream);
    });
  clear_divergence();
  Recording recording(*machine_.stream, trace == nullptr && dump == nullptr);
  // batch.valid_tokens counts the global batch, batch.rows this rank's rows.
  const auto tokens = static_cast<double>(batch.valid_tokens),
             samples = static_cast<double>(batch.rows * ranks);
  run_step(
      step_actions(batch.rows / options_.micro_batch), tokens, samples,
      [&](int microbatch, int place) -> const nn::BatchView& {
        const std::int64_t global = (microbatch * ranks + own) * options_.micro_batch;
        return taught(batches_[place].stage(batch, microbatch * options_.micro_batch, first_sample + global,
                                            *machine_.stream, tokens / samples),
                      microbatch, place);
      },
      trace, dump);
  if (divergence_) add_over_ranks(divergence_sum());
  recording.end();
  if (!dump) return;
  const StepScalars scalars = read_scalars();
  dump->end(scalars[ops::StepSlot::kLossSum] / scalars[ops::StepSlot::kTokens],
            scalars[ops::StepSlot::kLearningRate]);
}

const nn::BatchView& TrainingRank::taught(const nn::BatchView& batch, int microbatch, int place) {
  if (!divergence_) return batch;
  nn::Distillation how;
  how.loss = options_.distillation();
  how.teacher = teacher_.get();
  if (teacher_) how.rows = teacher_->rows(microbatch);
  how.sums = arena_.view(divergence_);
  batches_[place].teach(how);
  return batch;
}

void TrainingRank::clear_divergence() {
  if (!divergence_) return;
  const TensorView sums = arena_.view(divergence_);
  machine_.device->fill_zero(sums.data, sums.bytes(), *machine_.stream);
}

TensorView TrainingRank::divergence_sum() {
  return arena_.view(divergence_).slice(static_cast<std::int64_t>(ops::StepSlot::kLossSum), 1);
}

double TrainingRank::read_divergence() {
  double sum = 0;
  infer::read_tensor(machine_, divergence_sum(), [&](TensorView host) { sum = host.as<double>()[0]; });
  return sum;
}

void TrainingRank::ask_teacher(std::int64_t microbatches, const StageMicrobatch& stage) {
  const std::int64_t round = evaluation_round(options_.layout);
  const bool dry = machine_.device->kind() == DeviceKind::kMeta;
  Executor walk({*ops_, parallel_, teacher_->placement(), teacher_->chunks(), teacher_->outbox(),
                 holdings_.batches, teacher_->parameters(), *gradients_, *optimizer_, TensorView()});
  for (std::int64_t first = 0; first < microbatches; first += round) {
    const auto& all = evaluation_actions(std::min(round, microbatches - first));
    Executor::Answers answers;
    answers.normed = [&, first](int microbatch) { return teacher_->rows(first + microbatch); };
    walk.evaluate(
        dry ? of_first_microbatch(all) : all,
        [&, first](int microbatch, int place) -> const nn::BatchView& {
          return stage(static_cast<int>(first) + microbatch, place);
        },
        {}, std::move(answers));
  }
}

const std::vector<schedule::Action>& TrainingRank::step_actions(std::int64_t microbatches) {
  if (step_microbatches_ != microbatches) {
    schedule::Schedule steps = step_schedule(options_, microbatches);
    require<InternalError>(
        holdings_.covers(schedule::holdings_of(steps, stage())),
        "a step of {} microbatches holds more than one of {}, for which memory was declared", microbatches,
        options_.microbatches);
    step_actions_ = std::move(steps.ranks[stage()]);
    step_microbatches_ = microbatches;
  }
  return step_actions_;
}

const std::vector<schedule::Action>& TrainingRank::evaluation_actions(std::int64_t microbatches) {
  if (evaluation_microbatches_ != microbatches) {
    evaluation_actions_ = std::move(evaluation_schedule(options_.layout, microbatches).ranks[stage()]);
    evaluation_microbatches_ = microbatches;
  }
  return evaluation_actions_;
}

Executor TrainingRank::executor(TensorView state, std::uint64_t seed, TraceRecorder* trace, StepDump* dump) {
  return Executor({*ops_, parallel_, placement_, local_, *outbox_, holdings_.batches, *parameters_,
                   *gradients_, *optimizer_, state, seed, trace, dump, amax_.get()});
}

void TrainingRank::run_step(const std::vector<schedule::Action>& actions, double tokens, double samples,
                            const StageMicrobatch& stage, TraceRecorder* trace, StepDump* dump) {
  if (trace) {
    ops_->observer = trace;
    parameters_->observe(trace);
  }
  const TensorView state = arena_.view(state_);
  ops::run(*ops_, ops::BeginStep{state, tokens});
  ring_->clear();
  executor(state, static_cast<std::uint64_t>(options_.model.config.seed), trace, dump)
      .train(actions, stage,
             {state, options_.max_norm, options_.rate, options_.weight_decay, options_.loss_scale, samples});
  if (trace) {
    ops_->observer = nullptr;
    parameters_->observe(nullptr);
  }
}

TensorView TrainingRank::evaluation_losses() { return losses_ ? arena_.view(losses_) : TensorView(); }
TensorView TrainingRank::evaluation_answers() { return answers_ ? arena_.view(answers_) : TensorView(); }

// Ranks without the value contribute zero.
void TrainingRank::add_over_ranks(TensorView value) {
  for (const auto group : {parallel::Group::kPipeline, parallel::Group::kDataContext})
    parallel_.along(group).all_reduce(value, comm::ReduceOp::kSum, *machine_.stream)->wait();
}

TrainingRank::LossSum TrainingRank::evaluate(const data::Batch& batch, double sentence_weight,
                                             const AnswerSink& answers, const LossSink& losses,
                                             const LogitsSink& logits) {
  require<InternalError>(options_.evaluation, "no memory was declared to evaluate with");
  const TensorView state = arena_.view(evaluation_state_);
  machine_.device->fill_zero(state.data, state.bytes(), *machine_.stream);
  clear_divergence();
  // A teacher has memory for the rows of a step.
  const std::int64_t microbatches = batch.rows / options_.micro_batch,
                     round = teacher_ ? std::min(evaluation_round(options_.layout), options_.microbatches)
                                      : evaluation_round(options_.layout);
  Executor walk = executor(state, 0, nullptr);
  for (std::int64_t first = 0; first < microbatches; first += round) {
    const auto bring = [&](const auto& sink) {
      return [&, first](int microbatch, TensorView tensor) {
        infer::read_tensor(machine_, tensor,
                           [&](TensorView host) { sink((first + microbatch) * options_.micro_batch, host); });
      };
    };
    Executor::Answers taken{answers ? evaluation_answers() : TensorView(), bring(answers)};
    if (losses) taken.take_losses = bring(losses);
    std::optional<LogitsProbe> probe;
    if (logits)
      taken.probe = [&, first](int microbatch) {
        return &probe.emplace(machine_, (first + microbatch) * options_.micro_batch, logits);
      };
    const auto staged = [&](int microbatch, int place) -> const nn::BatchView& {
      const std::int64_t row = (first + microbatch) * options_.micro_batch;
      return batches_[place].stage(batch, row, row, *machine_.stream, sentence_weight);
    };
    const std::int64_t now = std::min(round, microbatches - first);
    if (teacher_) ask_teacher(now, staged);
    walk.evaluate(
        evaluation_actions(now),
        [&](int microbatch, int place) -> const nn::BatchView& {
          return taught(staged(microbatch, place), microbatch, place);
        },
        evaluation_losses(), std::move(taken));
  }
  LossSum sum;
  if (divergence_) {
    add_over_ranks(divergence_sum());
    sum.divergence = read_divergence();
  }
  add_over_ranks(state.slice(static_cast<std::int64_t>(ops::StepSlot::kLossSum), 1));
  infer::read_tensor(machine_, state, [&](TensorView host) {
    sum.loss = host.as<double>()[static_cast<std::size_t>(ops::StepSlot::kLossSum)];
  });
  sum.tokens = static_cast<double>(batch.valid_tokens);
  return sum;
}

StepScalars TrainingRank::read_scalars() {
  StepScalars scalars;
  infer::read_tensor(machine_, arena_.view(state_), [&](TensorView host) {
    scalars.slots.assign(host.as<double>(), host.as<double>() + kSlots);
  });
  return scalars;
}

void TrainingRank::write_scalars(const StepScalars& scalars) {
  infer::write_tensor(machine_, arena_.view(state_), [&](TensorView host) {
    std::copy(scalars.slots.begin(), scalars.slots.end(), host.as<double>());
  });
}

}  // namespace stoa::run
