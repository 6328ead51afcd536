#include "infer/engine/paged_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "device/native_stream.h"
#include "infer/cache_type.h"
#include "infer/engine/adapter_set.h"
#include "infer/host_window.h"
#include "nn/adapted_rows.h"
#include "ops/cache_rows.h"
#include "ops/draw_tokens.h"
#include "ops/most_likely.h"
#include "ops/op_recording.h"

namespace stoa::infer {

namespace {

// Tables of a pass, one behind the other, which reach the device in one copy.
class PackedTables {
 public:
  // Numbers that tables of up to so many take.
  static std::int64_t room(std::initializer_list<std::int64_t> sizes) {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) sum += round_up(size, kAlignment);
    return sum;
  }

  explicit PackedTables(const TensorView& memory) : memory_(memory) {}
  // Where `values` will be.
  TensorView add(std::span<const std::int32_t> values) {
    const auto begin = std::ssize(values_);
    values_.insert(values_.end(), values.begin(), values.end());
    values_.resize(static_cast<std::size_t>(round_up(std::ssize(values_), kAlignment)));
    return memory_.slice(begin, std::ssize(values));
  }
  void stage(Machine& machine) const { infer::stage(machine, memory_, values_); }

 private:
  static constexpr std::int64_t kAlignment = 4;  // 16 bytes

  const TensorView memory_;
  std::vector<std::int32_t> values_;
};

}  // namespace

PagedModel::PagedModel(Arena& arena, const Options& options, std::function<PassParts()> parts)
    : arena_(arena), options_(options), parts_(std::move(parts)), tables_(options.model.config) {
  const PassLimits& limits = options.limits;
  const model::ModelConfig& config = options.model.config;
  const auto declare = [&](const char* name, DType type, Shape shape) {
    return arena.declare(MemoryCategory::kBatch, {std::string("engine.") + name, type, shape});
  };
  require<InternalError>(!limits.reads_sources() || options.adapters.empty(),
                         "requests choose adapters of an encoder-decoder");
  const std::int64_t tokens = limits.most_tokens();
  if (limits.reads_sources()) sources_.emplace(arena, limits);
  tables_of_pass_ =
      declare("tables", DType::kI32,
              {PackedTables::room({tokens, tokens, limits.pass_tokens, limits.sequences + 1, limits.sequences,
                                   limits.sequences * limits.blocks_of(limits.longest())})});
  const RankShare& share = options.share;
  const parallel::TensorPlace place = share.tensor_place();
  const std::int64_t columns =
      nn::vocabulary_part(options.model.vocabulary, options.model.padded_vocabulary, place).rows;
  if (share.last_stage()) logits_ = declare("logits", options.precision.vectors(), {limits.scored, columns});
  if (share.last_stage()) draws_ = declare("draws", DType::kI32, {limits.scored, ops::kTokenDrawWords});
  if (share.last_stage()) found_ = declare("found tokens", DType::kI32, {limits.scored, 2});
  const std::int64_t others = share.rank == 0 ? std::ssize(share.holders()) - share.last_stage() : 0;
  if (others > 0)
    others_ = declare("logits of others", options.precision.vectors(), {others * limits.scored, columns});
  if (options.losses) {
    labels_ = declare("labels", DType::kI32, {limits.pass_tokens});
    mask_ = declare("loss_mask", DType::kF32, {limits.pass_tokens});
    losses_ = declare("losses", options.precision.vectors(), {tokens});
  }
  const DType kept = options.kept();
  const model::CacheSizes sizes = model::cache_sizes(config, place);
  const model::StateSizes states = model::state_sizes(config, place);
  const auto cache = [&](const char* name, std::int64_t l, DType type, const Shape& shape) {
    return arena.declare(MemoryCategory::kKvCache, {fmt::format("{}.{}", name, l), type, shape});
  };
  const Shape rows =
      ops::CacheShape(limits.blocks, sizes.heads, limits.block_tokens, ops::cached_width(kept, sizes.width))
          .shape();
  for (const std::int64_t l : model::caching_layers(config, share.layers(config.num_layers))) {
    linear_.push_back(config.linear.is_linear(l));
    const DType type = linear_.back() ? options.precision.vectors() : kept;
    const Arena::Id first = linear_.back() ? cache("convolved", l, type, states.convolved)
                                           : cache(sizes.shared ? "latents" : "keys", l, type, rows);
    const Arena::Id second = linear_.back() ? cache("state", l, type, states.state)
                             : sizes.shared ? first
                                            : cache("values", l, type, rows);
    cache_ids_.emplace_back(first, second);
  }
}

void PagedModel::open_cache(const PassParts& parts) {
  if (!cache_.layers.empty()) return;
  forget_repeated(*parts.machine.stream);  // of a model that had this memory before
  const model::ModelConfig& config = options_.model.config;
  const auto layers = model::caching_layers(config, options_.share.layers(config.num_layers));
  // Those before it are of other stages, or of an encoder.
  if (!layers.empty()) cache_.layers.resize(static_cast<std::size_t>(layers.front()));
  for (std::size_t l = 0; l < cache_ids_.size(); ++l) {
    const TensorView first = arena_.view(cache_ids_[l].first), second = arena_.view(cache_ids_[l].second);
    nn::KvLayer& layer = cache_.layers.emplace_back();
    (linear_[l] ? layer.convolved : layer.keys) = first;
    (linear_[l] ? layer.state : layer.values) = second;
  }
}

namespace {

// Blocks of bytes as what CopyRows copies.
TensorView as_words(const TensorView& blocks) {
  const std::int64_t bytes = blocks.shape.inner();
  return bytes % 4 == 0 ? TensorView(blocks.data, DType::kI32, {blocks.rows(), bytes / 4})
                        : TensorView(blocks.data, DType::kF16, {blocks.rows(), bytes / 2});
}

}  // namespace

void PagedModel::copy_block(const PassParts& parts, BlockId from, BlockId to) {
  for (const nn::KvLayer& layer : cache_.layers) {
    const auto copy = [&](TensorView blocks) {
      if (blocks.dtype == DType::kU8) blocks = as_words(blocks);
      const Shape flat{1, blocks.shape.inner()};
      ops::run(parts.ops, ops::CopyRows{.x = blocks.slice(from, 1).reshape(flat),
                                        .index = {},
                                        .y = blocks.slice(to, 1).reshape(flat)});
    };
    if (!layer.keys) continue;
    copy(layer.keys);
    if (layer.values.data != layer.keys.data) copy(layer.values);
  }
}

void PagedModel::prepare_alone(const PassParts& parts, const PassSegment& segment) {
  if (segment.begin == 0)
    for (const nn::KvLayer& layer : cache_.layers)
      for (const TensorView& state : {layer.convolved, layer.state})
        if (state) ops::run(parts.ops, ops::FillZero{state});
  if (!tables_.any() || parts.constants == nullptr) return;
  const auto count = std::ssize(segment.tokens);
  history_.resize(static_cast<std::size_t>(segment.begin));
  if (segment.begin > 0 && tables_.remakes_keys(reached_, segment.length)) {
    for (std::int64_t begin = 0; begin < segment.begin; begin += limits().pass_tokens) {
      PassSegment again = segment;
      again.begin = begin;
      again.tokens = std::span(history_).subspan(
          static_cast<std::size_t>(begin),
          static_cast<std::size_t>(std::min(limits().pass_tokens, segment.begin - begin)));
      again.scored = 0;
      tables_.write(parts.machine, arena_, *parts.constants, begin, std::ssize(again.tokens), segment.length);
      run_segments(parts, std::span(&again, 1));
    }
    reached_ = 0;
  }
  if (segment.begin == 0) reached_ = 0;
  reached_ = std::max(reached_, segment.length);
  history_.insert(history_.end(), segment.tokens.begin(), segment.tokens.end());
  tables_.write(parts.machine, arena_, *parts.constants, segment.begin, count, segment.length);
}

namespace {

// How many of the first segments share a pass.
std::size_t together(const PassParts& parts, std::span<const PassSegment> segments) {
  const auto joins = [&](int adapter) { return adapter == 0 || parts.adapters->joined(adapter) != nullptr; };
  const int first = segments.front().adapter;
  const auto end = std::ranges::find_if(segments, [&](const PassSegment& s) {
    return s.adapter != first && !(joins(first) && joins(s.adapter));
  });
  return static_cast<std::size_t>(end - segments.begin());
}

// Whose rows are whose in a pass of such segments.
std::vector<nn::AdapterRun> runs_of(const PassParts& parts, std::span<const PassSegment> segments) {
  std::vector<nn::AdapterRun> out;
  std::int64_t begin = 0;
  int last = -1;
  for (const PassSegment& s : segments) {
    if (std::exchange(last, s.adapter) != s.adapter)
      out.push_back({begin, 0, s.adapter == 0 ? nullptr : parts.adapters->joined(s.adapter)});
    out.back().count += std::ssize(s.tokens);
    begin += std::ssize(s.tokens);
  }
  return out;
}

}  // namespace

void PagedModel::run_plan(const PassParts& parts, const PassPlan& plan,
                          std::span<const std::int32_t> labels) {
  open_cache(parts);
  for (const auto& [from, to] : plan.copies) copy_block(parts, from, to);
  if (!limits().shares && limits().sequences == 1) prepare_alone(parts, plan.segments.front());
  std::int64_t row = 0;
  for (std::span<const PassSegment> rest = plan.segments; !rest.empty();) {
    const std::size_t count = together(parts, rest);
    row += run_segments(parts, rest.first(count), row, labels);
    rest = rest.subspan(count);
  }
}

std::span<const float> PagedModel::losses(const PassPlan& plan, std::span<const std::int32_t> labels) {
  const std::int64_t tokens = plan.tokens - plan.sources;
  require<InternalError>(options_.losses && std::ssize(labels) == tokens,
                         "{} labels of {} tokens; losses are {}", labels.size(), tokens,
                         options_.losses ? "declared" : "not declared");
  const PassParts parts = parts_();
  run_plan(parts, plan, labels);
  gather_losses(parts, plan.tokens);
  host_losses_.resize(labels.size());
  read_floats(parts.machine, arena_.view(losses_).slice(plan.sources, tokens).reshape({1, tokens}), tokens,
              host_losses_);
  return host_losses_;
}

std::span<const float> PagedModel::run(const PassPlan& plan) {
  const PassParts parts = parts_();
  run_plan(parts, plan, {});
  if (options_.share.ranks() > 1) return gather_logits(parts, plan.scored);
  const TensorView logits = arena_.view(logits_);
  const std::int64_t vocabulary = limits().vocabulary;
  const auto count = static_cast<std::size_t>(plan.scored * vocabulary);
  if (parts.machine.device->kind() == DeviceKind::kHost && logits.dtype == DType::kF32 &&
      logits.shape[1] == vocabulary)
    return {logits.as<float>(), count};
  if (plan.scored > 0 && pins_logits(parts.machine))
    return read_pinned(parts.machine, logits.slice(0, plan.scored));
  if (parts.machine.device->kind() == DeviceKind::kMeta) return {};  // a dry run computes none
  host_logits_.resize(count);
  if (plan.scored > 0) read_floats(parts.machine, logits.slice(0, plan.scored), vocabulary, host_logits_);
  return host_logits_;
}

// A GPU copies its logits to pinned memory as they are, those of padding ids left out.
bool PagedModel::pins_logits(const Machine& machine) const {
  return machine.device->kind() == DeviceKind::kCuda && arena_.view(logits_).dtype == DType::kF32;
}

bool PagedModel::finds_tokens() const { return options_.share.ranks() == 1 && pins_logits(parts_().machine); }

std::span<const float> PagedModel::run_wishes(const PassPlan& plan, std::span<const RowWish> wishes,
                                              std::span<FoundToken> found) {
  const PassParts parts = parts_();
  run_plan(parts, plan, {});
  if (plan.scored == 0) return {};
  return read_pinned(parts.machine, arena_.view(logits_).slice(0, plan.scored), wishes, found);
}

std::span<const float> PagedModel::read_pinned(Machine& machine, const TensorView& logits,
                                               std::span<const RowWish> wishes, std::span<FoundToken> found) {
  const auto pin = [&](Buffer& buffer, std::size_t bytes) {
    if (!buffer.data()) buffer = machine.device->host_memory().allocate(bytes);
    return static_cast<std::byte*>(buffer.data());
  };
  const std::int64_t rows = logits.rows(), vocabulary = limits().vocabulary,
                     row_bytes = vocabulary * std::int64_t{sizeof(float)};
  std::byte* const to = pin(pinned_logits_, static_cast<std::size_t>(limits().scored * row_bytes));
  const auto kind_of = [&](std::int64_t row) {
    return wishes.empty() ? RowWish::Kind::kLogits : wishes[static_cast<std::size_t>(row)].kind;
  };
  const TensorView all = logits.columns(0, vocabulary), tokens = arena_.view(found_);
  const auto find = [&](const auto& op) {
    ops::check(op);
    machine.backend->execute(op, ops::Resources{*machine.stream});
  };
  std::vector<std::int64_t> found_rows;  // of `tokens`
  std::vector<std::int32_t> draws;       // of all rows whose tokens are drawn, in one operation
  for (std::int64_t row = 0; row < rows; ++row) {
    if (kind_of(row) != RowWish::Kind::kDrawn) continue;
    ops::TokenDraw draw = wishes[static_cast<std::size_t>(row)].draw;
    draw.row = static_cast<std::int32_t>(row);
    const auto words = std::bit_cast<std::array<std::int32_t, ops::kTokenDrawWords>>(draw);
    draws.insert(draws.end(), words.begin(), words.end());
    found_rows.push_back(row);
  }
  if (const std::int64_t count = std::ssize(found_rows); count > 0) {
    const TensorView table = arena_.view(draws_).slice(0, count);
    stage(machine, table.reshape({table.elements()}), draws);
    find(ops::DrawTokens{all, table, tokens.slice(0, count)});
  }
  for (std::int64_t begin = 0, end = 0; begin < rows; begin = end) {
    for (end = begin + 1; end < rows && kind_of(end) == kind_of(begin);) ++end;
    if (kind_of(begin) == RowWish::Kind::kDrawn) continue;
    const TensorView some = all.slice(begin, end - begin);
    if (kind_of(begin) == RowWish::Kind::kMostLikely) {
      find(ops::MostLikely{some, tokens.slice(std::ssize(found_rows), end - begin)});
      for (std::int64_t row = begin; row < end; ++row) found_rows.push_back(row);
      continue;
    }
    const std::int64_t once = some.contiguous() ? some.rows() : 1;
    for (std::int64_t row = 0; row < some.rows(); row += once)
      machine.device->copy(to + (begin + row) * row_bytes, some.slice(row, once).data,
                           static_cast<std::size_t>(once * row_bytes), *machine.stream);
  }
  std::byte* const read = pin(pinned_found_, tokens.bytes());
  if (!found_rows.empty())
    machine.device->copy(read, tokens.data, tokens.slice(0, std::ssize(found_rows)).bytes(), *machine.stream);
  machine.stream->synchronize();
  static_assert(sizeof(FoundToken) == 2 * sizeof(std::int32_t));
  for (std::size_t i = 0; i < found_rows.size(); ++i)
    std::memcpy(&found[static_cast<std::size_t>(found_rows[i])], read + i * sizeof(FoundToken),
                sizeof(FoundToken));
  return {reinterpret_cast<const float*>(to), static_cast<std::size_t>(rows * vocabulary)};
}

std::span<const float> PagedModel::gather_logits(const PassParts& parts, std::int64_t rows) {
  const RankShare& share = options_.share;
  const std::vector<int> holders = share.holders();
  const bool holds = std::ranges::find(holders, share.rank) != holders.end();
  if (rows == 0 || (share.rank > 0 && !holds)) return {};
  comm::Communicator& group = parts.parallel.along(parallel::Group::kWorld);
  Stream& stream = *parts.machine.stream;
  if (share.rank > 0) {
    group.send(arena_.view(logits_).slice(0, rows), 0, stream)->wait();
    return {};
  }
  std::vector<TensorView> all;
  std::vector<std::unique_ptr<stoa::Event>> under_way;
  for (const int holder : holders) {
    if (holder == 0) {
      all.push_back(arena_.view(logits_).slice(0, rows));
      continue;
    }
    all.push_back(arena_.view(others_).slice(std::ssize(under_way) * rows, rows));
    under_way.push_back(group.receive(all.back(), holder, stream));
  }
  for (const auto& event : under_way) event->wait();
  if (parts.machine.device->kind() == DeviceKind::kMeta) return {};
  const std::int64_t vocabulary = limits().vocabulary;
  host_logits_.resize(static_cast<std::size_t>(rows * vocabulary));
  for (std::size_t h = 0; h < all.size(); ++h) {
    const parallel::Part ids =
        parallel::part_of(vocabulary, static_cast<int>(all.size()), static_cast<int>(h));
    read_tensor(parts.machine, all[h], [&](TensorView host) {
      dispatch_float(host.dtype, [&]<class T>() {
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t c = 0; c < ids.count; ++c)
            host_logits_[static_cast<std::size_t>(i * vocabulary + ids.begin + c)] =
                static_cast<float>(host.row<T>(i)[c]);
      });
    });
  }
  return host_logits_;
}

void PagedModel::gather_losses(const PassParts& parts, std::int64_t tokens) {
  const RankShare& share = options_.share;
  const int holder = share.holders().front();
  if (holder == 0 || (share.rank != 0 && share.rank != holder)) return;
  comm::Communicator& group = parts.parallel.along(parallel::Group::kWorld);
  const TensorView losses = arena_.view(losses_).slice(0, tokens);
  Stream& stream = *parts.machine.stream;
  (share.rank == 0 ? group.receive(losses, holder, stream) : group.send(losses, 0, stream))->wait();
}

namespace {

// Attention divides the keys of a text into spans of so many (ops/cuda/kernels/attention.h,
// ops/cpu/attention_kernels.h).
constexpr std::int64_t kRepeatedKeys = 256;

// What all recordings take together; one has a few hundred kilobytes.
constexpr std::size_t kMostRecordedBytes = std::size_t{16} << 20;

// A token each, without adapters: what an answer takes.
bool are_single_tokens(std::span<const PassSegment> segments) {
  return std::ranges::all_of(
      segments, [](const PassSegment& s) { return s.tokens.size() == 1 && s.scored == 1 && s.adapter == 0; });
}

// Whether a pass is nothing but operations of the host's backend, chosen by shapes alone. With experts they
// are chosen by numbers that a router computed; among ranks there is communication.
bool keeps_operations(const PassParts& parts, const model::ModelConfig& config) {
  return parts.machine.device->kind() == DeviceKind::kHost && parts.ops.observer == nullptr &&
         parts.parallel.grid().size() == 1 && !config.moe.num_moe_experts;
}

}  // namespace

void PagedModel::repeat(ops::OpContext& ops, const RecordingKey& key,
                        const std::function<void(ops::OpContext&)>& body) {
  const auto known = recordings_.find(key);
  if (known != recordings_.end() && known->second.scratch == ops.scratch.used())
    return known->second.operations.run(ops.stream);
  ops::RecordingBackend recorder(ops.backend);
  ops::OpContext recorded{recorder, ops.stream, ops.scratch, ops.observer, ops.device};
  const std::size_t scratch = ops.scratch.used();
  body(recorded);
  if (known != recordings_.end()) forget_recording(known);
  ops::OpRecording operations = recorder.take();
  if (operations.bytes() > kMostRecordedBytes) return;
  while (!recordings_.empty() && recorded_bytes_ + operations.bytes() > kMostRecordedBytes)
    forget_recording(std::prev(recordings_.end()));  // passes of many texts gain least
  recorded_bytes_ += operations.bytes();
  recordings_.emplace(key, Recorded{scratch, std::move(operations)});
}

void PagedModel::forget_recording(Recordings::iterator recording) {
  recorded_bytes_ -= recording->second.operations.bytes();
  recordings_.erase(recording);
}

std::int64_t PagedModel::run_segments(const PassParts& parts, std::span<const PassSegment> segments,
                                      std::int64_t row, std::span<const std::int32_t> labels) {
  std::vector<std::int32_t> tokens, positions, q_begin{0}, k_count, blocks, slots, scored;
  const auto put = [&](Arena::Id id, std::span<const std::int32_t> values) {
    return stage(parts.machine, arena_.view(id), values);
  };
  if (sources_) SourceRows::append(segments, tokens, positions);
  const std::int64_t read = std::ssize(tokens);  // rows of sources
  ops::AttentionSegments s;
  const std::int64_t size = limits().block_tokens;
  std::size_t columns = 0;  // of the table of blocks
  for (const PassSegment& segment : segments) {
    columns = std::max(columns, segment.blocks.size());
    s.longest_k = std::max<std::int64_t>(s.longest_k, segment.begin + std::ssize(segment.tokens));
  }
  const RankShare& share = options_.share;
  // Passes for the same number of texts then submit the same work until the longest text needs another span.
  const bool alike =
      share.ranks() == 1 && !sources_ && labels.empty() && row == 0 && are_single_tokens(segments);
  const bool keeps = alike && keeps_operations(parts, options_.model.config);
  const bool repeats = keeps || (alike && records(*parts.machine.stream));
  if (repeats) {
    s.longest_k = std::min<std::int64_t>(round_up(s.longest_k, kRepeatedKeys), limits().longest());
    columns = static_cast<std::size_t>(limits().blocks_of(s.longest_k));
  }
  for (const PassSegment& segment : segments) {
    const auto count = std::ssize(segment.tokens), end = segment.begin + count;
    tokens.insert(tokens.end(), segment.tokens.begin(), segment.tokens.end());
    for (std::int64_t position = segment.begin; position < end; ++position) {
      positions.push_back(static_cast<std::int32_t>(position));
      slots.push_back(static_cast<std::int32_t>(
          segment.blocks[static_cast<std::size_t>(position / size)] * size + position % size));
    }
    q_begin.push_back(static_cast<std::int32_t>(std::ssize(tokens) - read));
    k_count.push_back(static_cast<std::int32_t>(end));
    blocks.insert(blocks.end(), segment.blocks.begin(), segment.blocks.end());
    blocks.resize(k_count.size() * columns);
    for (std::int64_t i = std::ssize(tokens) - segment.scored; i < std::ssize(tokens); ++i)
      scored.push_back(static_cast<std::int32_t>(i));
    s.longest_q = std::max<std::int64_t>(s.longest_q, count);
  }
  s.count = std::ssize(segments);
  PackedTables tables(arena_.view(tables_of_pass_));
  s.q_begin = tables.add(q_begin);
  s.k_count = tables.add(k_count);
  s.k_begin = tables.add(blocks).reshape({s.count, static_cast<std::int64_t>(columns)});
  cache_.own = tables.add(slots);
  nn::BatchView view;
  view.rows = 1;
  view.length = std::ssize(tokens);
  view.tokens = tables.add(tokens);
  view.positions = tables.add(positions);
  view.segments = s;
  tables.stage(parts.machine);
  SourceRows::Parts divided;
  if (sources_) sources_->split(parts.machine, arena_, segments, view, divided, cache_.source);
  nn::BatchView& written = sources_ ? divided.target : view;
  Scratch::Frame frame(parts.ops.scratch);
  model::Chunk::Outputs outputs;
  const auto boundary = [&] {
    const TensorSpec spec = parts.chunk.boundary();
    return parts.ops.scratch.allocate(spec.dtype, {view.length, spec.shape[1]});
  };
  TensorView from_stage;  // the stream of the stage before
  if (!share.first_stage()) {
    from_stage = boundary();
    parts.parallel.along(parallel::Axis::kPipeline)
        .receive(from_stage, share.stage() - 1, *parts.machine.stream)
        ->wait();
  }
  if (!share.last_stage()) {
    outputs.stream = boundary();
  } else if (!labels.empty()) {
    const std::vector<float> ones(static_cast<std::size_t>(written.length), 1.0f);
    written.labels = put(labels_, labels.subspan(static_cast<std::size_t>(row), ones.size()));
    written.loss_mask = arena_.view(mask_).slice(0, written.length);
    parts.machine.device->copy_from_host(written.loss_mask.data, ones.data(), ones.size() * sizeof(float),
                                         *parts.machine.stream);
    outputs.losses = arena_.view(losses_).slice(row, view.length);
  } else if (!scored.empty()) {
    outputs.rows = scored;
    outputs.logits = arena_.view(logits_).slice(row, std::ssize(scored));
  }
  const auto infer = [&](ops::OpContext& ops, const model::Chunk& chunk, nn::ParamAccess& parameters,
                         std::span<const nn::AdapterRun> adapted = {}) {
    nn::Pass pass{.ops = ops,
                  .parallel = parts.parallel,
                  .params = parameters,
                  .batch = view,
                  .cache = &cache_,
                  .adapted = adapted};
    chunk.infer(pass, from_stage, outputs);
  };
  const int first = segments.front().adapter, last = segments.back().adapter;
  if (keeps)
    repeat(parts.ops, {s.count, s.longest_k},
           [&](ops::OpContext& ops) { infer(ops, parts.chunk, parts.parameters); });
  else if (repeats)
    repeat_on(
        *parts.machine.stream,
        std::array{static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(this)), s.count, s.longest_k},
        [&] { infer(parts.ops, parts.chunk, parts.parameters); });
  else if (last == 0)
    infer(parts.ops, parts.chunk, parts.parameters);
  else if (first == last && parts.adapters->joined(last) == nullptr)
    infer(parts.ops, parts.adapters->chunk(last), parts.adapters->parameters(last));
  else
    infer(parts.ops, parts.chunk, parts.parameters, runs_of(parts, segments));
  if (outputs.stream)
    parts.parallel.along(parallel::Axis::kPipeline)
        .send(outputs.stream, share.stage() + 1, *parts.machine.stream)
        ->wait();
  return labels.empty() ? std::ssize(scored) : written.length;
}

void PagedModel::share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) {
  if (WorkerPool* pool = parts_().machine.pool.get())
    return pool->run(tasks, [&](std::int64_t task, int) { body(task); });
  for (std::int64_t task = 0; task < tasks; ++task) body(task);
}

void PagedModel::dry_run() {
  const PassLimits& l = limits();
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(std::max(l.pass_tokens, l.source_tokens)),
                                        0);
  const std::vector<BlockId> blocks(static_cast<std::size_t>(l.blocks_of(l.longest())), 0),
      source_blocks(static_cast<std::size_t>(l.blocks_of(l.source_tokens)), 0);
  const auto run_all = [&](PassPlan& plan) {
    reached_ = l.longest();  // nothing is recomputed: that takes passes like these
    history_.assign(static_cast<std::size_t>(plan.segments.front().begin), 0);
    for (int adapter = 0; adapter <= std::ssize(options_.adapters); ++adapter) {
      for (PassSegment& segment : plan.segments) segment.adapter = adapter;
      run(plan);
      if (options_.losses)
        losses(plan, std::span(zeros).first(static_cast<std::size_t>(plan.tokens - plan.sources)));
    }
  };
  // The first segments read sources of up to `longest` tokens, `all` tokens together if they can.
  const auto run_with_sources = [&](PassPlan plan, std::int64_t longest, std::int64_t all) {
    for (PassSegment& segment : plan.segments) {
      const std::int64_t count = std::min({longest, l.source_tokens, all - plan.sources});
      segment.source = std::span(zeros).first(static_cast<std::size_t>(count));
      plan.sources += count;
    }
    plan.tokens += plan.sources;
    run_all(plan);
  };
  // Workspaces may depend on the numbers of tokens, sequences and logits: their ends are walked, and where
  // products change their kernels.
  std::set<std::int64_t> counts{1, 8, 128, l.pass_tokens};
  if (l.reads_sources()) counts.insert({2, 4, 16, 32, 64, 256, 512, l.sequences});
  for (const std::int64_t tokens : counts)
    for (const std::int64_t sequences : std::set{std::int64_t{1}, std::min(l.sequences, tokens)}) {
      if (tokens > l.pass_tokens) continue;
      PassPlan plan;
      for (std::int64_t i = 0; i < sequences; ++i) {
        PassSegment segment;
        const std::int64_t others = sequences - 1 - i;  // a token and its logits for each
        const std::int64_t count = std::min(tokens - plan.tokens - others, l.longest());
        segment.begin = l.longest() - count;
        segment.length = l.longest();
        segment.tokens = std::span(zeros).first(static_cast<std::size_t>(count));
        segment.blocks = blocks;
        segment.source_length = l.source_tokens;
        segment.source_blocks = source_blocks;
        segment.scored = std::min(count, l.scored - plan.scored - others);
        plan.tokens += count;
        plan.segments.push_back(segment);
        plan.scored += segment.scored;
      }
      run_all(plan);
      if (!l.reads_sources()) continue;
      // Sources fill what the targets leave of a pass, a few long ones or one for each target; or one that is
      // too long for that joins the next tokens of answers.
      if (const std::int64_t left = l.pass_tokens - plan.tokens; left > 0) {
        run_with_sources(plan, l.source_tokens, left);
        run_with_sources(plan, ceil_div(left, sequences), left);
      }
      if (plan.tokens == sequences) run_with_sources(plan, l.source_tokens, l.source_tokens);
    }
  if (l.shares && l.blocks > 1) copy_block(parts_(), 0, 1);
  reached_ = 0;
  history_.clear();
}

}  // namespace stoa::infer
