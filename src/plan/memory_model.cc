#include "plan/memory_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/freeze.h"
#include "parallel/meta_contexts.h"
#include "run/offload.h"

namespace stoa::plan {
namespace {

using grid::Axis;
using grid::RankGrid;

std::size_t& of(MemoryTable& table, MemoryCategory category) {
  return table[static_cast<std::size_t>(category)];
}

// All that a schedule makes a rank hold is held within this many microbatches, or grows forever
// (schedule/holdings_test.cc).
std::int64_t enough_microbatches(const run::Layout& layout, std::int64_t microbatches) {
  if (layout.schedule == "gpipe" || layout.schedule == "bfs") return microbatches;
  return std::min<std::int64_t>(microbatches, 2 * std::max(layout.pipeline_ranks(), layout.microbatch_group));
}

// Few microbatches with which the same memory is declared per buffer, and which the schedule can run.
std::int64_t fewest_microbatches(const run::Layout& layout, std::int64_t microbatches) {
  const bool free =
      layout.schedule == "1f1b" || layout.schedule == "gpipe" || layout.schedule.starts_with("zb-h");
  if (free || layout.pipeline_ranks() == 1) return std::min<std::int64_t>(microbatches, 2);
  if (layout.schedule.starts_with("interleaved"))
    return std::min<std::int64_t>(microbatches, std::max(layout.pipeline_ranks(), layout.microbatch_group));
  return std::min<std::int64_t>(microbatches, 2 * std::max(layout.pipeline_ranks(), layout.microbatch_group));
}

// The rows of a step's tokens that the teacher keeps for the head.
std::size_t teacher_bytes(const run::TrainingOptions& o) {
  const std::int64_t tokens =
      o.microbatches * o.micro_batch * o.length / o.layout.grid.degree(Axis::kContext);
  return aligned_bytes(static_cast<std::size_t>(tokens * o.teacher->model.config.hidden_size) *
                       size_of(o.precision.compute));
}

bool splits(const schedule::Holdings& holdings) {
  return std::any_of(holdings.stashes.begin(), holdings.stashes.end(), [](int n) { return n > 0; });
}

// Local chunks of a stage in model order.
std::vector<run::PlacedChunk> chunks_of(const std::vector<run::PlacedChunk>& placed, int stage) {
  std::vector<run::PlacedChunk> own;
  std::copy_if(placed.begin(), placed.end(), std::back_inserter(own),
               [&](const run::PlacedChunk& chunk) { return chunk.rank == stage; });
  return own;
}

// "layers.3.attention.qkv" -> "attention.qkv".
std::string module_of(const std::string& name) {
  if (!name.starts_with("layers.")) return name;
  const auto dot = name.find('.', 7);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

std::size_t buffers(const schedule::Holdings& h, const std::vector<run::PlacedChunk>& own) {
  std::size_t count = static_cast<std::size_t>(h.sends);
  for (const run::PlacedChunk& chunk : own)
    count += static_cast<std::size_t>(h.inputs[static_cast<std::size_t>(chunk.chunk)] +
                                      h.gradients[static_cast<std::size_t>(chunk.chunk)]);
  return count;
}

}  // namespace

MemoryModel::MemoryModel(infer::Machine& meta, run::TrainingOptions base)
    : meta_(meta), base_(std::move(base)) {
  require<InternalError>(base_.sample_context == 0, "sampling of text is not planned here");
  const model::ModelConfig& config = base_.model.config;
  const auto like_first = [&](std::int64_t layer) {
    return config.moe.has_experts(layer) == config.moe.has_experts(0) &&
           config.linear.is_linear(layer) == config.linear.is_linear(0) &&
           config.fp8.covers(layer, config.num_layers) == config.fp8.covers(0, config.num_layers);
  };
  first_trained_ = model::first_trained_layer(base_.model);
  // The stages of a teacher may be uneven where those of the model are even.
  uniform_ = config.freeze.empty() && !config.peft.active() && !base_.teacher;
  for (std::int64_t layer = 1; layer < config.num_layers; ++layer) uniform_ = uniform_ && like_first(layer);
}

run::TrainingOptions MemoryModel::options(const MemoryPoint& point) const {
  run::TrainingOptions o = base_;
  o.layout = point.layout;
  o.micro_batch = point.micro_batch;
  o.microbatches = point.microbatches;
  o.model.config.recompute = point.recompute;
  return o;
}

MemoryModel::Keys MemoryModel::keys(const run::TrainingOptions& o,
                                    const std::vector<run::PlacedChunk>& placed, int rank, bool split) const {
  const run::Layout& l = o.layout;
  const grid::RankGrid& g = l.grid;
  std::string chunks;
  bool any_layers = false;
  for (const run::PlacedChunk& chunk : chunks_of(placed, g.coordinate(rank, Axis::kPipeline))) {
    chunks += fmt::format("{}{}{}", chunk.embedding ? "e" : "", chunk.layers, chunk.head ? "h" : "");
    chunks += uniform_ ? "," : fmt::format("@{},", chunk.first_layer);
    any_layers = any_layers || chunk.layers > 0;
  }
  const bool tied_apart = placed.front().rank != placed.back().rank;
  const bool at_ends = l.zero_stage > 0;  // data ranks differ in the blocks of the norm that they cut
  const auto end = [rank](const RankGrid& grid) {
    const int at = grid.coordinate(rank, Axis::kData);
    return at == 0 ? "first" : at + 1 == grid.degree(Axis::kData) ? "last" : "mid";
  };
  const RankGrid experts = g.experts();
  const std::string place = fmt::format(
      "t{}/{} c{} e{}.{}/{}.{} ", g.coordinate(rank, Axis::kTensor), g.degree(Axis::kTensor),
      g.coordinate(rank, Axis::kContext), experts.coordinate(rank, Axis::kTensor),
      experts.coordinate(rank, Axis::kExpert), experts.degree(Axis::kTensor), experts.degree(Axis::kExpert));
  const std::string shards = fmt::format("d{}x{} z{} {} {} ", g.degree(Axis::kContext), g.degree(Axis::kData),
                                         l.zero_stage, at_ends ? end(g) : "", at_ends ? end(experts) : "");
  const bool each = (l.reduce_each_microbatch || o.microbatches == 1) && !split;
  const model::RecomputeConfig& r = o.model.config.recompute;
  const std::string pass = fmt::format(
      "m{} c{}.{}{} {}{} r{}{}{} ", o.micro_batch, static_cast<int>(l.context_kind), l.context_neighbours,
      l.sequence_parallel ? "s" : "", split ? "w" : "", g.degree(Axis::kContext),
      static_cast<int>(r.granularity), r.method ? static_cast<int>(*r.method) : -1,
      r.num_layers ? fmt::format("n{}", *r.num_layers) : "");
  Keys out;
  out.stores = place + shards + (each ? "each " : "") + (tied_apart ? "apart " : "") +
               (g.degree(Axis::kPipeline) > 1 ? "p " : "") + (l.overlap_grad_reduce ? "o " : "") +
               fmt::format("b{} ", l.bucket_bytes) +
               (l.grad_reduce_type ? fmt::format("g{} ", static_cast<int>(*l.grad_reduce_type)) : "") +
               chunks;
  out.slots = place + pass + chunks;
  // Temporaries are of one block at a time, so that the number of blocks does not matter; with uniform
  // recomputation it does, as far as blocks share an input.
  out.scratch = place + pass + shards + (each ? "each " : "") + (tied_apart ? "apart " : "") +
                (l.overlap_grad_reduce ? "o " : "") + fmt::format("b{} ", l.bucket_bytes) +
                (g.degree(Axis::kPipeline) > 1 ? "p " : "");
  if (uniform_ && !r.num_layers) {
    const auto own = chunks_of(placed, g.coordinate(rank, Axis::kPipeline));
    out.scratch += fmt::format("{}{}{}", own.front().embedding ? "e" : "", any_layers ? "l" : "",
                               own.back().head ? "h" : "");
  } else {
    out.scratch += chunks;
  }
  return out;
}

void MemoryModel::wire(const run::TrainingOptions& o, int rank, const Keys& keys) {
  run::TrainingOptions few = o;
  few.microbatches = fewest_microbatches(o.layout, o.microbatches);
  run::TrainingRank wired(meta_, few, parallel::make_meta_context(o.layout.grid, rank, *meta_.device),
                          std::nullopt);
  ++wired_;
  const std::size_t scratch = wired.measure_scratch();
  const int stage = o.layout.grid.coordinate(rank, Axis::kPipeline);
  const auto placed = run::place_chunks(o.layout, o.model.config.num_layers);
  const auto own = chunks_of(placed, stage);
  const auto few_held = holdings(few);
  const schedule::Holdings& held = (*few_held)[static_cast<std::size_t>(stage)];

  Slots slots;
  for (const auto& chunk : wired.chunks()) {
    auto& slot = slots.chunks.emplace_back();
    slot.activations = chunk->saved_bytes() + chunk->offloaded_bytes();
    slot.stash = aligned_bytes(chunk->stash_bytes());
    for (const nn::ActivationTable& table : chunk->tables())
      slot.blocks.push_back(table.saved_bytes() + table.offloaded_bytes());
  }
  slots.boundary = aligned_bytes(wired.chunks().front()->boundary().bytes());
  Stores stores;
  stores.categories = wired.arena().declared();
  slots.batch =
      of(stores.categories, MemoryCategory::kBatch) / static_cast<std::size_t>(std::max(held.batches, 1));
  if (o.evaluation && placed.back().rank == stage)
    slots.losses = aligned_bytes(
        static_cast<std::size_t>(o.micro_batch * o.length / o.layout.grid.degree(Axis::kContext)) *
        size_of(o.precision.vectors()));
  of(stores.categories, MemoryCategory::kActivations) = 0;
  of(stores.categories, MemoryCategory::kOffloaded) = 0;
  of(stores.categories, MemoryCategory::kStash) = 0;
  of(stores.categories, MemoryCategory::kBatch) = 0;
  of(stores.categories, MemoryCategory::kTeacher) = 0;
  of(stores.categories, MemoryCategory::kScalars) -= slots.losses;
  of(stores.categories, MemoryCategory::kCommunication) -= buffers(held, own) * slots.boundary;
  stores_.emplace(keys.stores, stores);
  slots_.emplace(keys.slots, std::move(slots));
  scratch_.emplace(keys.scratch, aligned_bytes(scratch));
}

std::shared_ptr<const MemoryModel::HoldingsOfStages> MemoryModel::holdings(const run::TrainingOptions& o) {
  run::TrainingOptions enough;  // all that most_held() looks at
  enough.model = o.model;
  enough.layout = o.layout;
  enough.evaluation = o.evaluation || o.teacher;  // the teacher's passes are like it
  enough.microbatches = enough_microbatches(o.layout, o.microbatches);
  const run::Layout& l = o.layout;
  const int trained_from =
      run::first_trained_chunk(run::place_chunks(l, o.model.config.num_layers), first_trained_);
  const std::string key = fmt::format("{} {} {} {} {} {}", l.schedule, l.pipeline_ranks(), l.chunks,
                                      l.microbatch_group, enough.microbatches, trained_from);
  auto& held = holdings_[key];
  if (!held) {
    // If the schedule rejects the numbers, the error must name the requested number of microbatches, not the
    // reduced one.
    if (enough.microbatches != o.microbatches) {
      try {
        held = std::make_shared<const HoldingsOfStages>(run::most_held(enough));
      } catch (const ConfigError&) {
        enough.microbatches = o.microbatches;
      }
    }
    if (!held) held = std::make_shared<const HoldingsOfStages>(run::most_held(enough));
  }
  return held;
}

RankBytes MemoryModel::rank(const run::TrainingOptions& o, const std::vector<run::PlacedChunk>& placed,
                            const HoldingsOfStages& holdings, int rank) {
  const int stage = o.layout.grid.coordinate(rank, Axis::kPipeline);
  const schedule::Holdings& held = holdings[static_cast<std::size_t>(stage)];
  const auto own = chunks_of(placed, stage);
  const Keys k = keys(o, placed, rank, splits(held));
  auto stores = stores_.find(k.stores);
  auto slots = slots_.find(k.slots);
  auto scratch = scratch_.find(k.scratch);
  if (stores == stores_.end() || slots == slots_.end() || scratch == scratch_.end()) {
    wire(o, rank, k);
    stores = stores_.find(k.stores);
    slots = slots_.find(k.slots);
    scratch = scratch_.find(k.scratch);
  }
  RankBytes bytes;
  bytes.rank = rank;
  bytes.categories = stores->second.categories;
  const Slots& s = slots->second;
  const std::vector<std::int64_t> moved = run::offloaded_layers(placed, o.model.config.recompute.offload);
  std::int64_t moved_blocks = 0;
  std::size_t largest = 0;
  for (std::size_t c = 0; c < own.size(); ++c) {
    const auto chunk = static_cast<std::size_t>(own[c].chunk),
               flying = static_cast<std::size_t>(held.activations[chunk]);
    const Slots::Chunk& slot = s.chunks[c];
    std::size_t offloaded = 0;
    for (std::int64_t block = 0; block < moved[chunk]; ++block) {
      const std::size_t size = slot.blocks[static_cast<std::size_t>(block)];
      if (size > 0) ++moved_blocks;  // one without a backward pass keeps nothing
      offloaded += size;
      largest = std::max(largest, size);
    }
    of(bytes.categories, MemoryCategory::kActivations) +=
        flying * aligned_bytes(slot.activations - offloaded);
    of(bytes.categories, MemoryCategory::kOffloaded) += flying * aligned_bytes(offloaded);
    of(bytes.categories, MemoryCategory::kStash) +=
        static_cast<std::size_t>(held.stashes[chunk]) * slot.stash;
  }
  of(bytes.categories, MemoryCategory::kActivations) += nn::OffloadRing::bytes(moved_blocks, largest);
  of(bytes.categories, MemoryCategory::kCommunication) += buffers(held, own) * s.boundary;
  of(bytes.categories, MemoryCategory::kBatch) += static_cast<std::size_t>(held.batches) * s.batch;
  of(bytes.categories, MemoryCategory::kScalars) += s.losses;
  if (o.teacher && placed.back().rank == stage)
    of(bytes.categories, MemoryCategory::kTeacher) += teacher_bytes(o);
  of(bytes.categories, MemoryCategory::kScratch) += scratch->second;
  bytes.total = device_bytes(bytes.categories);
  bytes.offloaded = of(bytes.categories, MemoryCategory::kOffloaded);
  return bytes;
}

RankBytes MemoryModel::rank(const MemoryPoint& point, int number) {
  const run::TrainingOptions o = options(point);
  return rank(o, run::place_chunks(o.layout, o.model.config.num_layers), *holdings(o), number);
}

MemoryDetail MemoryModel::detail(const MemoryPoint& point, int number) {
  const run::TrainingOptions o = options(point);
  run::TrainingOptions few = o;
  few.microbatches = fewest_microbatches(o.layout, o.microbatches);
  run::TrainingRank wired(meta_, few, parallel::make_meta_context(o.layout.grid, number, *meta_.device),
                          std::nullopt);
  ++wired_;
  MemoryDetail detail;
  wired.measure_scratch(&detail.fullest);
  const int stage = o.layout.grid.coordinate(number, Axis::kPipeline);
  const auto own = chunks_of(run::place_chunks(o.layout, o.model.config.num_layers), stage);
  const auto all = holdings(o);
  const schedule::Holdings& held = (*all)[static_cast<std::size_t>(stage)];
  std::map<std::string, std::size_t> saved;
  std::int64_t moved_blocks = 0;
  std::size_t largest = 0;
  for (std::size_t c = 0; c < own.size(); ++c) {
    const model::Chunk& chunk = *wired.chunks()[c];
    moved_blocks += chunk.offloaded_blocks();
    largest = std::max(largest, chunk.largest_offload());
    const int flying = held.activations[static_cast<std::size_t>(own[c].chunk)];
    detail.in_flight = std::max(detail.in_flight, flying);
    const auto times = static_cast<std::size_t>(flying);
    std::size_t of_blocks = 0;
    for (const nn::ActivationTable& table : chunk.tables()) {
      std::size_t of_table = 0;
      for (const nn::ActivationSpec& spec : table.activations()) {
        if (spec.keep != nn::Keep::kSave) continue;
        saved[module_of(spec.tensor.name)] += times * aligned_bytes(spec.tensor.bytes());
        of_table += aligned_bytes(spec.tensor.bytes());
      }
      // Inputs that are recomputed are not in the slot.
      if (of_table > table.saved_bytes()) saved["input"] -= times * (of_table - table.saved_bytes());
      of_blocks += table.saved_bytes();
    }
    if (chunk.saved_bytes() > of_blocks) saved["head"] += times * (chunk.saved_bytes() - of_blocks);
  }
  detail.saved.assign(saved.begin(), saved.end());
  std::stable_sort(detail.saved.begin(), detail.saved.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  detail.places = nn::OffloadRing::bytes(moved_blocks, largest);
  detail.pipeline = buffers(held, own) * aligned_bytes(wired.chunks().front()->boundary().bytes());
  MemoryTable categories = rank(point, number).categories;
  detail.gathered = of(categories, MemoryCategory::kCommunication) - detail.pipeline;
  return detail;
}

std::optional<ExpertLoads> MemoryModel::expert_loads(const MemoryPoint& point, int rank) {
  const model::ModelConfig& config = base_.model.config;
  const grid::RankGrid experts = point.layout.grid.experts();
  if (!config.moe.num_moe_experts || config.fp8.fp8 ||
      experts.degree(Axis::kExpert) * experts.degree(Axis::kTensor) == 1)
    return {};
  const auto bytes_with = [&](double factor) {
    run::TrainingOptions o = base_;
    o.model.config.moe.moe_buffer_factor = factor;
    MemoryModel other(meta_, std::move(o));
    return other.rank(point, rank).total;
  };
  constexpr double kAll = 65536;
  return ExpertLoads{config.moe.moe_buffer_factor, bytes_with(1), bytes_with(kAll)};
}

RankBytes MemoryModel::worst(const MemoryPoint& point) {
  const run::TrainingOptions o = options(point);
  const auto placed = run::place_chunks(o.layout, o.model.config.num_layers);
  const auto held = holdings(o);
  const int stages = o.layout.pipeline_ranks();
  const int per_stage = o.layout.grid.size() / stages;  // pipeline is the slowest axis
  RankBytes most;
  std::size_t offloaded = 0;
  for (int stage = 0; stage < stages; ++stage) {
    RankBytes bytes = rank(o, placed, *held, stage * per_stage);
    offloaded = std::max(offloaded, bytes.offloaded);
    if (bytes.total > most.total) most = bytes;
  }
  most.offloaded = offloaded;
  return most;
}

}  // namespace stoa::plan
