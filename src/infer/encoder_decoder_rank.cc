#include "infer/encoder_decoder_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/elementwise.h"

namespace stoa::infer {
namespace {

std::int64_t virtual_tokens_of(const EncoderDecoderOptions& o) { return o.model.config.peft.virtual_count(); }

std::int64_t pass_tokens(const EncoderDecoderOptions& o) {
  return o.sources * (o.source_tokens + virtual_tokens_of(o)) + std::max(o.targets, o.target_tokens);
}

}  // namespace

EncoderDecoderRank::EncoderDecoderRank(Machine& machine, const EncoderDecoderOptions& options,
                                       std::optional<std::size_t> scratch_bytes)
    : options_(options),
      virtual_tokens_(virtual_tokens_of(options_)),
      source_room_(options_.source_tokens + virtual_tokens_),
      chunk_(machine, options_.model, options_.precision, pass_tokens(options_),
             std::max(source_room_, options_.target_tokens)) {
  const model::ModelConfig& config = options_.model.config;
  const auto& o = options_;
  const std::int64_t tokens = pass_tokens(o);
  Arena& arena = chunk_.arena();
  const auto declare = [&](MemoryCategory category, const std::string& name, DType type, Shape shape) {
    return arena.declare(category, {name, type, shape});
  };
  const auto batch = [&](const char* name, DType type, Shape shape) {
    return declare(MemoryCategory::kBatch, std::string("pairs.") + name, type, shape);
  };
  tokens_ = batch("tokens", DType::kI32, {tokens});
  positions_ = batch("positions", DType::kI32, {tokens});
  labels_ = batch("labels", DType::kI32, {tokens});
  mask_ = batch("loss_mask", DType::kF32, {tokens});
  losses_ = batch("losses", o.precision.vectors(), {tokens});
  logits_ = batch("logits", o.precision.vectors(), {o.targets, o.model.padded_vocabulary});
  const auto segments = [&](std::optional<DeviceSegments>& to, const char* name, std::int64_t count,
                            std::int64_t queries, std::int64_t keys) {
    parallel::ContextBlock block;
    block.q_count = queries, block.k_count = keys;
    to.emplace(arena, name, count, block);
  };
  segments(source_segments_, "source segments", o.sources, source_room_, source_room_);
  segments(target_segments_, "target segments", o.targets, o.target_tokens, o.target_tokens);
  segments(cross_segments_, "cross segments", o.targets, o.target_tokens, source_room_);
  const std::int64_t heads = config.num_attention_heads, d = config.head_size();
  for (std::int64_t l = config.encoder_layers(); l < config.num_layers; ++l) {
    const auto cached = [&](const char* name, Shape shape) {
      return declare(MemoryCategory::kKvCache, fmt::format("{}.{}", name, l), o.precision.compute, shape);
    };
    const std::int64_t lanes = o.targets * o.target_tokens;
    cache_ids_.push_back({cached("keys", {lanes, heads, d}), cached("values", {lanes, heads, d}),
                          cached("source", {o.sources * source_room_, 2, heads, d})});
  }
  chunk_.commit(scratch_bytes);
  cache_.layers.resize(static_cast<std::size_t>(config.num_layers));
  cache_.sources.resize(cache_.layers.size());
  for (std::size_t i = 0, l = static_cast<std::size_t>(config.encoder_layers()); i < cache_ids_.size(); ++i) {
    cache_.layers[l + i] = {arena.view(cache_ids_[i].keys), arena.view(cache_ids_[i].values), {}, {}};
    cache_.sources[l + i] = arena.view(cache_ids_[i].source);
  }
}

void EncoderDecoderRank::dry_run() {
  const std::vector<std::int32_t> source(static_cast<std::size_t>(options_.source_tokens), 0),
      target(static_cast<std::size_t>(options_.target_tokens), 0);
  std::vector<float> out(target.size());
  losses(source, target, target, out);
  read(std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(options_.sources), source), 0);
  if (options_.target_tokens == 1) return;
  const std::vector<std::int32_t> all(static_cast<std::size_t>(options_.targets), 0);
  select(all);
  fed_ = options_.target_tokens - 1;
  feed(all);
}

EncoderDecoderRank::Sources EncoderDecoderRank::sources_of(
    const std::vector<std::vector<std::int32_t>>& sources) const {
  require<InternalError>(static_cast<std::int64_t>(sources.size()) <= options_.sources,
                         "{} sources, declared for {}", sources.size(), options_.sources);
  Sources out;
  const auto first_virtual = static_cast<std::int32_t>(options_.model.vocabulary);
  for (const auto& source : sources) {
    const auto own = static_cast<std::int64_t>(source.size()), count = own + virtual_tokens_;
    require<InternalError>(own >= 1 && own <= options_.source_tokens,
                           "a source of {} tokens, declared for {}", own, options_.source_tokens);
    add_segment(out.segments, count, static_cast<std::int64_t>(out.tokens.size()), count, 0, 0);
    for (std::int32_t i = 0; i < virtual_tokens_; ++i) out.tokens.push_back(first_virtual + i);
    out.tokens.insert(out.tokens.end(), source.begin(), source.end());
    for (std::int32_t i = 0; i < count; ++i) out.positions.push_back(i);
  }
  return out;
}

// The views of a pass, which refer to each other.
struct EncoderDecoderRank::Staged {
  nn::BatchView whole, source, target;
  Staged() = default;
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
};

void EncoderDecoderRank::stage(Staged& staged, const Sources& sources, std::span<const std::int32_t> tokens,
                               std::int64_t count) {
  const auto read = static_cast<std::int64_t>(sources.tokens.size()),
             written = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int32_t> all = sources.tokens, positions = sources.positions;
  all.insert(all.end(), tokens.begin(), tokens.end());
  for (std::int64_t i = 0; i < written; ++i) positions.push_back(static_cast<std::int32_t>(fed_ + i % count));
  Stream& stream = *chunk_.machine().stream;
  staged.whole.rows = static_cast<std::int64_t>(targets_.size());
  staged.whole.length = count;
  staged.whole.tokens = chunk_.put(tokens_, all);
  staged.whole.positions = chunk_.put(positions_, positions);
  const auto part = [&](nn::BatchView& view, std::int64_t begin, std::int64_t rows) {
    view.rows = staged.whole.rows;
    view.length = count;
    if (rows > 0) {
      view.tokens = staged.whole.tokens.slice(begin, rows);
      view.positions = staged.whole.positions.slice(begin, rows);
    }
    view.source = &staged.source;
  };
  part(staged.source, 0, read);
  part(staged.target, read, written);
  staged.whole.source = &staged.source;
  staged.whole.target = &staged.target;
  if (read > 0) staged.source.segments = source_segments_->stage(sources.segments, stream);
  parallel::ContextSegments own, cross;
  for (const Target& target : targets_) {
    add_segment(own, count, target.lane * options_.target_tokens, fed_ + count, 0, 0);
    add_segment(cross, count, target.k_begin, target.k_count, 0, 0);
  }
  staged.target.segments = target_segments_->stage(own, stream);
  staged.target.cross_segments = cross_segments_->stage(cross, stream);
  stream.synchronize();  // the host's copies end here
}

std::span<const float> EncoderDecoderRank::next(const Sources& sources,
                                                std::span<const std::int32_t> tokens) {
  require<InternalError>(tokens.size() == targets_.size() && fed_ < options_.target_tokens,
                         "{} tokens for {} targets of {} tokens, declared for {}", tokens.size(),
                         targets_.size(), fed_, options_.target_tokens);
  Staged staged;
  stage(staged, sources, tokens, 1);
  cache_.slots.clear();
  for (const Target& target : targets_)
    cache_.slots.push_back(static_cast<std::int32_t>(target.lane * options_.target_tokens + fed_));
  Scratch::Frame frame(chunk_.ops().scratch);
  nn::Pass pass = chunk_.pass(staged.whole, &cache_);
  std::vector<std::int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(sources.tokens.size()));
  model::Chunk::Outputs outputs;
  outputs.rows = rows;
  outputs.logits = chunk_.arena().view(logits_).slice(0, static_cast<std::int64_t>(rows.size()));
  chunk_.chunk().infer(pass, {}, outputs);
  ++fed_;
  return chunk_.read(outputs.logits, options_.model.vocabulary);
}

std::span<const float> EncoderDecoderRank::read(const std::vector<std::vector<std::int32_t>>& sources,
                                                std::int32_t start) {
  const Sources all = sources_of(sources);
  fed_ = 0;
  targets_.clear();
  for (std::size_t i = 0; i < sources.size(); ++i)
    targets_.push_back({static_cast<std::int32_t>(i), all.segments.k_begin[i], all.segments.k_count[i]});
  return next(all, std::vector<std::int32_t>(sources.size(), start));
}

std::span<const float> EncoderDecoderRank::feed(std::span<const std::int32_t> tokens) {
  return next({}, tokens);
}

void EncoderDecoderRank::select(std::span<const std::int32_t> parents) {
  require<InternalError>(static_cast<std::int64_t>(parents.size()) <= options_.targets,
                         "{} targets, declared for {}", parents.size(), options_.targets);
  // The first child of a target stays where it is; the others go to lanes that became free, so that nothing
  // is overwritten that is still to be copied.
  std::vector<Target> selected;
  std::vector<bool> taken(static_cast<std::size_t>(options_.targets), false), moves;
  for (const std::int32_t parent : parents) {
    selected.push_back(targets_[static_cast<std::size_t>(parent)]);
    const auto lane = static_cast<std::size_t>(selected.back().lane);
    moves.push_back(taken[lane]);
    taken[lane] = true;
  }
  for (std::size_t i = 0; i < selected.size(); ++i) {
    if (!moves[i]) continue;
    const auto free = std::find(taken.begin(), taken.end(), false);
    *free = true;
    const auto lane = static_cast<std::int32_t>(free - taken.begin());
    for (const nn::KvLayer& layer : cache_.layers)
      for (const TensorView& cache : {layer.keys, layer.values})
        if (cache)
          ops::run(chunk_.ops(), ops::Cast{.x = cache.slice(selected[i].lane * options_.target_tokens, fed_),
                                           .y = cache.slice(lane * options_.target_tokens, fed_)});
    selected[i].lane = lane;
  }
  targets_ = std::move(selected);
}

void EncoderDecoderRank::losses(const std::vector<std::int32_t>& source, std::span<const std::int32_t> inputs,
                                std::span<const std::int32_t> labels, std::span<float> losses) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  require<InternalError>(
      labels.size() == inputs.size() && losses.size() == inputs.size() && count <= options_.target_tokens,
      "a target of {} tokens with {} labels, declared for {}", count, labels.size(), options_.target_tokens);
  const Sources all = sources_of({source});
  fed_ = 0;
  const auto read = static_cast<std::int64_t>(all.tokens.size());
  targets_ = {{0, 0, read}};
  Staged staged;
  stage(staged, all, inputs, count);
  Machine& machine = chunk_.machine();
  const TensorView mask = chunk_.arena().view(mask_).slice(0, count);
  const std::vector<float> ones(inputs.size(), 1.0f);
  staged.target.labels = chunk_.put(labels_, labels);
  machine.device->copy_from_host(mask.data, ones.data(), mask.bytes(), *machine.stream);
  machine.stream->synchronize();
  staged.target.loss_mask = mask;
  Scratch::Frame frame(chunk_.ops().scratch);
  nn::Pass pass = chunk_.pass(staged.whole);
  model::Chunk::Outputs outputs;
  outputs.losses = chunk_.arena().view(losses_).slice(0, read + count);
  chunk_.chunk().infer(pass, {}, outputs);
  targets_.clear();
  std::ranges::copy(chunk_.read(outputs.losses.slice(read, count), 1), losses.begin());
}

}  // namespace stoa::infer
