#include "layout_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/half.h"
#include "base/philox.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/threads/thread_world.h"
#include "data/number_label.h"
#include "device/device_transfer.h"
#include "device/host/host_device.h"
#include "infer/host_window.h"
#include "model/init.h"
#include "ops/reference/reference_backend.h"
#include "parallel/process_context.h"
#include "parallel/thread_contexts.h"

namespace stoa::layouts {
namespace {

infer::Machine reference_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::ReferenceBackend>();
  machine.stream = machine.device->create_stream();
  return machine;
}

run::TrainingOptions options_of(const TestRun& run, const run::Layout& layout) {
  run::TrainingOptions o;
  o.model = model::resolve_model(run.config);
  o.teacher = run.teacher;
  o.kept = run.kept;
  o.optim.name = run.optimizer;
  o.optim.eps = run.epsilon;
  o.precision = {run.type, run.type};
  o.micro_batch = run.micro_batch;
  o.length = run.config.sample_length();
  o.packed = run.packed;
  o.microbatches = run.rows / run.micro_batch / layout.data_ranks();
  o.layout = layout;
  o.sample_context = run.sample_context;
  o.max_norm = run.max_norm;
  o.rate.peak = o.rate.minimum = run.rate;
  o.rate.decay_samples = 1000;
  o.weight_decay.start = o.weight_decay.end = 0.1;
  return o;
}

// Tokens of a row that ends early.
std::int64_t masked_row_length(std::int64_t length, std::int64_t row) { return 3 + (row * 7) % (length - 2); }

// What was kept of a teacher of every token: ids with a distance between them, and log-probabilities.
void keep_predictions(const TestRun& run, std::int64_t step, data::Batch& batch) {
  const std::int64_t top = run.kept->top, vocabulary = run.config.vocab_size.value();
  const auto key = philox_key(78, RandomPurpose::kInit, "kept");
  for (std::int64_t i = 0; i < batch.rows * batch.sequence_length; ++i) {
    const auto random = [&](std::int64_t n) {
      const std::int64_t index = (step * batch.rows * batch.sequence_length + i) * (top + 1) + n;
      return philox_word(key, static_cast<std::uint64_t>(index)) * 0x1p-32;
    };
    for (std::int64_t n = 0; n < top; ++n)
      batch.kept_ids.push_back(static_cast<std::int32_t>(
          n * vocabulary / top +
          static_cast<std::int64_t>(random(n) * static_cast<double>(vocabulary / top))));
    for (std::int64_t n = 0; n <= top; ++n)
      batch.kept_log_probabilities.push_back(
          static_cast<float>(std::log((0.1 + random(n)) / (static_cast<double>(top) + 1))));
  }
}

// The global batch of a step: a function of its number alone.
data::Batch global_batch(const TestRun& run, std::int64_t step) {
  const std::int64_t length = run.config.sample_length(), source = run.config.source_length(),
                     vocabulary = run.config.vocab_size.value();
  data::Batch batch;
  const bool masked = model::traits(run.config).picks_tokens();
  const model::TaskConfig& task = run.config.task;
  // Of a whole text an encoder's first token is labelled, a decoder's last.
  const bool last = run.config.kind == model::ModelKind::kGpt;
  const bool asks = task.type == model::Task::kQuestionAnswering,
             one_alone = asks || task.type == model::Task::kSequenceClassification;
  batch.resize(run.rows, length, masked);
  const auto key = philox_key(77, RandomPurpose::kInit, "batch");
  for (std::int64_t i = 0; i < run.rows * length; ++i) {
    const auto random = [&](std::int64_t stream) {
      const std::int64_t index = (step * run.rows * length + i) * 3 + stream;
      return philox_word(key, static_cast<std::uint64_t>(index)) * 0x1p-32;
    };
    const auto word = [&](double u) {
      return static_cast<std::int32_t>(u * static_cast<double>(vocabulary));
    };
    batch.tokens[i] = word(random(0));
    batch.labels[i] = word(random(1));
    // A row has three tokens at least.
    if (task.regression() && masked)
      batch.labels[i] = data::label_of_number(static_cast<float>(4 * random(1) - 2));
    else if (task.labelled())
      batch.labels[i] %= asks ? 3 : static_cast<std::int32_t>(task.classes());
    const std::int64_t at = i % length;
    batch.position_ids[i] = static_cast<std::int32_t>(at < source ? at : at - source);
    bool valid = i / length >= run.masked_rows && at >= source && random(2) < 0.8;
    if (masked) {
      batch.token_types[i] = batch.tokens[i] % 2;
      const std::int64_t end = run.full_rows ? length : masked_row_length(length, i / length);
      valid = run.full_rows || (valid && at > 0 && at < end && random(2) < 0.3);
      if (one_alone) valid = at == (last ? end - 1 : 0);
    }
    batch.loss_mask[i] = valid ? 1.0f : 0.0f;
    batch.valid_tokens += valid;
  }
  for (std::int64_t r = 0; r < run.rows; ++r) {
    const auto end = static_cast<std::int32_t>(length);
    if (masked) {
      batch.sentence_labels[r] = static_cast<std::int32_t>(r / 3 % 2);
      batch.cu_seqlens.insert(
          batch.cu_seqlens.end(),
          {0, static_cast<std::int32_t>(run.full_rows ? length : masked_row_length(length, r))});
    } else if (run.packed)
      batch.cu_seqlens.insert(batch.cu_seqlens.end(),
                              {0, 1 + static_cast<std::int32_t>(r % (length - 1)), end});
    else if (source > 0)  // sources of several lengths
      batch.cu_seqlens.insert(batch.cu_seqlens.end(), {0, static_cast<std::int32_t>(source - r % 3),
                                                       static_cast<std::int32_t>(source), end});
    else
      batch.cu_seqlens.insert(batch.cu_seqlens.end(), {0, end});
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
  }
  if (run.kept) keep_predictions(run, step, batch);
  return batch;
}

// What a data rank sees of it: microbatch m is rows [(m D + d) micro, …).
data::Batch rows_of(const data::Batch& global, std::int64_t micro, int ranks, int rank) {
  data::Batch batch;
  const std::int64_t length = global.sequence_length;
  batch.resize(global.rows / ranks, length, global.masked);
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    const std::int64_t from = ((r / micro) * ranks + rank) * micro + r % micro;
    const auto copy = [&](const auto& source, auto& target) {
      std::copy_n(source.begin() + from * length, length, target.begin() + r * length);
    };
    copy(global.tokens, batch.tokens);
    copy(global.labels, batch.labels);
    copy(global.position_ids, batch.position_ids);
    copy(global.loss_mask, batch.loss_mask);
    batch.samples[r] = global.samples[from];
    const auto append = [&](const auto& source, auto& target) {
      const auto row = static_cast<std::ptrdiff_t>(source.size()) / global.rows;
      target.insert(target.end(), source.begin() + from * row, source.begin() + (from + 1) * row);
    };
    append(global.kept_ids, batch.kept_ids);
    append(global.kept_log_probabilities, batch.kept_log_probabilities);
    if (global.masked) {
      copy(global.token_types, batch.token_types);
      batch.sentence_labels[r] = global.sentence_labels[from];
    }
    const auto ends = global.boundaries(from);
    batch.cu_seqlens.insert(batch.cu_seqlens.end(), ends.begin(), ends.end());
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
  }
  batch.valid_tokens = global.valid_tokens;
  return batch;
}

// Frozen matrices have no other values than those of compute precision.
double element(const TensorView& view, std::int64_t i) {
  if (view.dtype == DType::kBF16) return static_cast<double>(static_cast<float>(view.as<bf16>()[i]));
  return view.dtype == DType::kF64 ? view.as<double>()[i] : static_cast<double>(view.as<float>()[i]);
}

// Puts what a rank holds into canonical tensors; replicas must agree in every bit.
class Collector {
 public:
  explicit Collector(std::vector<std::string>& faults) : faults_(faults) {}

  // `memory`: elements `held` of the parameter's local tensor.
  void add(int rank, const nn::ParamSpec& spec, FlatRange held, const TensorView& memory, Tensors& tensors) {
    const std::lock_guard lock(mutex_);
    const std::int64_t pitch = spec.shard.local.rank() >= 2 ? spec.shard.local.inner() : 1;
    for (const ShardPiece& piece : spec.shard.pieces) {
      const std::int64_t columns = piece.global.rank() >= 2 ? piece.global.inner() : 1;
      const std::int64_t width = std::max<std::int64_t>(1, piece.column_count);
      auto& canonical = tensors[piece.name];
      canonical.resize(static_cast<std::size_t>(piece.global.elements()),
                       std::numeric_limits<double>::quiet_NaN());
      for (std::int64_t row = 0; row < piece.count; ++row)
        for (std::int64_t c = 0; c < width; ++c) {
          const std::int64_t local = (piece.memory_row + row) * pitch + c;
          if (local < held.begin || local >= held.end) continue;
          const double value = element(memory, local - held.begin);
          double& place =
              canonical[static_cast<std::size_t>((piece.begin + row) * columns + piece.column_begin + c)];
          if (!std::isnan(place) &&
              std::bit_cast<std::uint64_t>(place) != std::bit_cast<std::uint64_t>(value))
            fault(fmt::format("rank {} holds {} where another holds {}, in '{}'", rank, value, place,
                              piece.name));
          place = value;
        }
    }
  }
  void scalars(int rank, const std::vector<double>& values, std::vector<double>& common) {
    const std::lock_guard lock(mutex_);
    if (common.empty()) common = values;
    if (common != values) fault(fmt::format("rank {} reports other scalars than another rank", rank));
  }
  void fault(const std::string& text) {
    if (faults_.size() < 10) faults_.push_back(text);
  }
  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::vector<std::string>& faults_;
};

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

}  // namespace

TestRun tiny_run() {
  TestRun run;
  model::ModelConfig& c = run.config;
  c.num_layers = 4;
  c.hidden_size = 16;
  c.ffn_hidden_size = 24;
  c.num_attention_heads = 4;
  c.num_query_groups = 2;
  c.encoder_seq_length = 12;
  c.vocab_size = 61;
  c.make_vocab_size_divisible_by = 8;
  c.hidden_dropout = c.attention_dropout = c.embedding_dropout = 0.1;
  return run;
}

TestRun tiny_pairs_run() {
  TestRun run = tiny_run();
  model::ModelConfig& c = run.config;
  c.kind = model::ModelKind::kT5;
  c.num_query_groups.reset();
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kGegluTanh;
  c.bias = model::BiasKind::kNone;
  c.position_embedding_type = model::PositionEmbedding::kRelative;
  c.share_embeddings_and_output_weights = false;
  c.t5.seq_length_dec = 8;
  c.t5.relative_attention_num_buckets = 8;
  c.t5.relative_attention_max_distance = 10;
  return run;
}

run::Layout layout_of(int tensor, int context, int expert, int data, int pipeline) {
  run::Layout layout;
  layout.grid = grid::RankGrid({tensor, context, 1, data, pipeline}, {0, expert});
  return layout;
}

namespace {

bool rows_may_come_in_parts(const run::TrainingRank& rank) {
  for (const auto& chunk : rank.chunks())
    for (const nn::ActivationTable& table : chunk->tables())
      for (const nn::ActivationSpec& spec : table.activations())
        if (spec.tensor.name.ends_with(".arrival order") && spec.least_rows > 0) return true;
  return false;
}

void initialize_teacher(run::TrainingRank& rank) {
  optim::ParameterStore& store = rank.teacher()->parameters();
  const auto seed = static_cast<std::uint64_t>(rank.options().teacher->model.config.seed);
  for (std::size_t p = 0; p < store.specs().size(); ++p)
    infer::write_tensor(rank.machine(), store.get({static_cast<int>(p)}), [&](TensorView host) {
      model::initialize(store.specs()[p], seed, host, *rank.machine().pool);
    });
}

// What one rank does: its results go to `collector` and `result`, which the ranks of a process share.
void run_rank(const TestRun& run, const run::TrainingOptions& options, int number, infer::Machine& machine,
              const std::function<parallel::ParallelContext()>& context, Collector& collector,
              RunResult& result) {
  const run::Layout& layout = options.layout;
  infer::Machine meta = infer::make_meta_machine(machine);
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, options, number);
  run::TrainingRank rank(machine, options, context(), scratch);
  rank.initialize();
  if (run.teacher) initialize_teacher(rank);
  const int ranks = layout.data_ranks(), own = layout.data_rank(number);
  std::vector<double> losses, norms, divergences;
  const auto collect = [&](const auto& tensor, Tensors& tensors) {
    for (std::size_t p = 0; p < rank.params().specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      const FlatRange held = rank.parameters().held_range(id);
      const TensorView memory = tensor(id);  // none: the gradient of a frozen parameter
      if (memory && held.begin < held.end && !rank.params().specs()[p].holds_bytes())
        collector.add(number, rank.params().specs()[p], held, memory, tensors);
    }
  };
  if (run.before) run.before(number, rank);
  for (std::int64_t step = 0; step < run.steps; ++step) {
    run::TraceRecorder trace;
    std::unique_ptr<ckpt::DumpWriter> writer;
    std::unique_ptr<run::StepDump> dump;
    if (step == run.dump_step && !run.dump.empty()) {
      const std::int64_t layers = run.config.num_layers, length = run.config.encoder_seq_length;
      writer = std::make_unique<ckpt::DumpWriter>(
          run.dump, ckpt::DumpHeader{number, layout.grid.size(), "test", std::string(name_of(run.type)),
                                     "test", layers, length});
      dump = std::make_unique<run::StepDump>(
          *writer, machine, rank.parallel(),
          run::StepDump::Step{1, step * run.rows, run.rows, length, layers, {}});
    }
    data::Batch batch =
        rows_of(run.batches ? run.batches(step) : global_batch(run, step), run.micro_batch, ranks, own);
    if (run.weigh) run.weigh(number, batch);
    rank.step(batch, step * run.rows, run.trace ? &trace : nullptr, dump.get());
    if (run.trace) result.traces[number] = trace.json(number, run::rank_name(layout.grid, number));
    const run::StepScalars scalars = rank.read_scalars();
    losses.push_back(scalars[ops::StepSlot::kLossSum] / scalars[ops::StepSlot::kTokens]);
    norms.push_back(scalars[ops::StepSlot::kGradNorm]);
    if (options.distillation()) divergences.push_back(rank.read_divergence());
    if (step == 0) collect([&](nn::ParamId id) { return rank.gradients().gradient(id); }, result.gradients);
  }
  TestRun held_out = run;
  if (run.evaluation_rows > 0) held_out.rows = run.evaluation_rows;
  const data::Batch all = run.batches ? run.batches(run.steps) : global_batch(held_out, run.steps);
  run::TrainingRank::AnswerSink answers;
  if (run.config.task.classes() > 0) answers = [](std::int64_t, TensorView) {};
  const auto sum =
      rank.evaluate(rows_of(all, run.micro_batch, ranks, own),
                    static_cast<double>(all.valid_tokens) / static_cast<double>(all.rows), answers);
  if (options.distillation()) divergences.push_back(sum.divergence);
  collect([&](nn::ParamId id) { return rank.parameters().master(id); }, result.weights);
  if (optim::AmaxHistory* amax = rank.amax_history())
    for (std::size_t layer = 0; layer < amax->names().size(); ++layer) {
      const TensorView history = amax->history(layer);
      nn::ParamSpec spec;
      spec.shard = ShardSpec::whole(amax->names()[layer], history.shape);
      collector.add(number, spec, {0, history.elements()}, history, result.histories);
    }
  collector.scalars(number, losses, result.losses);
  collector.scalars(number, norms, result.norms);
  collector.scalars(number, divergences, result.divergences);
  const std::lock_guard lock(collector.mutex());
  const double evaluation = sum.loss / sum.tokens;
  if (result.evaluation != 0 && result.evaluation != evaluation)
    collector.fault(fmt::format("rank {} evaluates to a loss of {}, another to {}", number, evaluation,
                                result.evaluation));
  result.evaluation = evaluation;
  for (const auto& entry : rank.arena().entries())
    if (!entry.touched && run.evaluation_rows == 0)  // short evaluations leave some unused
      collector.fault(fmt::format("rank {} declared '{}' and did not use it", number, entry.spec.name));
  // Rows that end early need less than what was planned, and so do experts whose rows come in one part.
  const bool less =
      (model::traits(run.config).picks_tokens() && !run.full_rows) || rows_may_come_in_parts(rank);
  if (less ? rank.scratch().high_water() > scratch : rank.scratch().high_water() != scratch)
    collector.fault(fmt::format("rank {} used {} bytes of scratch, planned {}", number,
                                rank.scratch().high_water(), scratch));
}

}  // namespace

RunResult run_layout(const TestRun& run, const run::Layout& layout) {
  const run::TrainingOptions options = options_of(run, layout);
  comm::ThreadWorld world(layout.grid.size(), std::chrono::minutes(10));
  std::vector<parallel::GroupEnds> ends = parallel::make_ends(world, layout.grid, true);
  RunResult result;
  if (run.trace) result.traces.resize(static_cast<std::size_t>(layout.grid.size()));
  Collector collector(result.faults);
  world.run([&](int number) {
    infer::Machine machine = run.machine ? run.machine() : reference_machine();
    std::unique_ptr<Stream> side;
    const auto context = [&] {
      parallel::OwnGpu gpu;
      if (run.nccl)
        gpu = {std::make_shared<comm::NcclRank>(run.nccl(), dynamic_cast<SharableDevice&>(*machine.device),
                                                world.timeout(), [&] { return world.failure(); }),
               layout.context_place(number)};
      else
        side = parallel::share_device(world, number, *machine.device);
      // Of one rank alone the communicators do not know the device.
      const bool alone = layout.grid.size() == 1 && machine.device->kind() != DeviceKind::kHost;
      return alone ? parallel::ParallelContext::single(*machine.device)
                   : parallel::join(layout.grid, number, std::move(ends[static_cast<std::size_t>(number)]),
                                    gpu.nccl ? &gpu : nullptr);
    };
    run_rank(run, options, number, machine, context, collector, result);
  });
  return result;
}

RunResult run_process(const TestRun& run, const run::Layout& layout, comm::ProcessWorld& world) {
  RunResult result;
  Collector collector(result.faults);
  infer::Machine machine = reference_machine();
  run_rank(
      run, options_of(run, layout), world.rank(), machine,
      [&] { return parallel::make_process_context(world, layout.grid, true); }, collector, result);
  return result;
}

data::Batch batch_of(const TestRun& run, std::int64_t step) { return global_batch(run, step); }

std::vector<std::string> differences(const RunResult& reference, const RunResult& other, double tolerance) {
  std::vector<std::string> out = other.faults;
  // `scale`: what rounding of a tensor is measured against, if its own elements are smaller (a gradient that
  // is zero but for rounding).
  const auto compare = [&](const std::string& what, const std::vector<double>& a,
                           const std::vector<double>& b, double scale = 0) {
    if (a.size() != b.size())
      return out.push_back(fmt::format("{}: {} values, expected {}", what, b.size(), a.size()));
    const double largest = std::max(largest_of(a), scale);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool same = std::bit_cast<std::uint64_t>(a[i]) == std::bit_cast<std::uint64_t>(b[i]);
      if (same || (tolerance > 0 && std::abs(a[i] - b[i]) <= tolerance * largest)) continue;
      out.push_back(fmt::format("{}[{}] is {:.17g}, expected {:.17g}", what, i, b[i], a[i]));
      return;
    }
  };
  const auto compare_all = [&](const std::string& what, const Tensors& a, const Tensors& b) {
    if (a.size() != b.size())
      out.push_back(fmt::format("{}: {} tensors, expected {}", what, b.size(), a.size()));
    double largest = 0;
    for (const auto& [name, values] : a) largest = std::max(largest, largest_of(values));
    for (const auto& [name, values] : a)
      if (const auto found = b.find(name); found != b.end())
        compare(what + " of " + name, values, found->second, 1e-6 * largest);
      else
        out.push_back(fmt::format("{} of {} is missing", what, name));
  };
  compare("loss", reference.losses, other.losses);
  compare("gradient norm", reference.norms, other.norms);
  compare("evaluation", {reference.evaluation}, {other.evaluation});
  compare("divergence", reference.divergences, other.divergences);
  compare_all("gradient", reference.gradients, other.gradients);
  compare_all("weight", reference.weights, other.weights);
  for (const auto& [name, values] : reference.histories)
    if (const auto found = other.histories.find(name); found != other.histories.end())
      compare(name, values, found->second);
  if (reference.histories.size() != other.histories.size())
    out.push_back(fmt::format("{} histories of magnitudes, expected {}", other.histories.size(),
                              reference.histories.size()));
  return out;
}

}  // namespace stoa::layouts
