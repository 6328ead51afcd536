#include "optim/parameter_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "optim/communication_mark.h"

namespace stoa::optim {
namespace {

DType value_type(const FlatBucket& bucket, nn::Precision precision) {
  if (bucket.bytes) return DType::kU8;
  return bucket.matrices ? precision.compute : precision.vectors();
}

}  // namespace

ParameterStore::ParameterStore(Arena& arena, const nn::ParamList& params, nn::Precision precision,
                               const DataParallel& parallel)
    : arena_(&arena),
      specs_(&params.specs()),
      params_(&params),
      parallel_(parallel),
      layout_(params, parallel,
              parallel.bucket_bytes / static_cast<std::int64_t>(size_of(precision.vectors())),
              parallel.sharded(3) || parallel.gradient_shards()) {
  declare(arena, precision, true);
  if (!parallel.sharded(3)) return;
  window_ = std::make_unique<UnitWindow>(
      arena, params, layout_,
      UnitWindow::Options{"gathered weights",
                          [precision](const FlatBucket& bucket) { return value_type(bucket, precision); },
                          [](const FlatBucket& bucket) { return bucket.shards > 1; }});
}

ParameterStore::ParameterStore(Arena& arena, const std::vector<nn::ParamSpec>& specs, nn::Precision precision)
    : arena_(&arena), specs_(&specs), layout_(specs) {
  declare(arena, precision, false);
}

ParameterStore::~ParameterStore() = default;

void ParameterStore::declare(Arena& arena, nn::Precision precision, bool masters) {
  for (std::size_t b = 0; b < layout_.buckets().size(); ++b) {
    const FlatBucket& bucket = layout_.buckets()[b];
    const DType type = value_type(bucket, precision);
    const std::int64_t share = layout_.share(static_cast<int>(b));
    const std::string& first = (*specs_)[static_cast<std::size_t>(bucket.members.front().parameter)].name;
    const std::string name =
        bucket.members.size() == 1 ? first : fmt::format("{} and {} more", first, bucket.members.size() - 1);
    values_.push_back(
        arena.declare(MemoryCategory::kWeights,
                      {name, type, Shape{parallel_ && parallel_->sharded(3) ? share : bucket.elements}}));
    const bool separate = masters && bucket.trained && type != accumulation_type(type);
    masters_.push_back(
        separate ? arena.declare(MemoryCategory::kMaster, {"master." + name, accumulation_type(type),
                                                           Shape{sharded() ? share : bucket.elements}})
                 : Arena::Id{});
  }
  gathers_.resize(layout_.buckets().size());
}

TensorView ParameterStore::bytes_of(nn::ParamId id) {
  const FlatMember& member = layout_.member(id.index);
  return part_of(arena_->view(values_[static_cast<std::size_t>(layout_.bucket_of(id.index))]),
                 {member.begin, member.begin + member.count});
}

TensorView ParameterStore::get(nn::ParamId id) {
  if (holds_bytes(id)) return bytes_of(id);
  const int b = layout_.bucket_of(id.index);
  const int unit = layout_.bucket(b).unit;
  const bool gathered = window_ && layout_.bucket(b).shards > 1;
  if (gathered) {
    if (!window_->resident(unit)) gather_unit(unit);
    window_->used(unit);
    if (unit != last_unit_) prefetch(unit);
  }
  wait_gather(b);
  const FlatMember& member = layout_.member(id.index);
  const TensorView bucket = gathered ? window_->view(b) : arena_->view(values_[static_cast<std::size_t>(b)]);
  return part_of(bucket, {member.begin, member.begin + member.count})
      .reshape((*specs_)[static_cast<std::size_t>(id.index)].shard.local);
}

FlatRange ParameterStore::held_range(nn::ParamId id) const {
  const FlatMember& member = layout_.member(id.index);
  if (!sharded() || holds_bytes(id)) return {0, member.count};
  const FlatRange share = own_range(layout_.bucket_of(id.index));
  const std::int64_t begin = std::clamp<std::int64_t>(share.begin - member.begin, 0, member.count);
  return {begin, std::clamp<std::int64_t>(share.end - member.begin, begin, member.count)};
}

FlatRange ParameterStore::own_range(int bucket) const {
  return layout_.range(bucket, parallel_->shard(layout_.bucket(bucket).copies));
}

ShardSpec ParameterStore::held(nn::ParamId id) const {
  ShardSpec shard = (*specs_)[static_cast<std::size_t>(id.index)].shard;
  if (sharded() && !holds_bytes(id)) shard.flat = held_range(id);
  return shard;
}

bool ParameterStore::is_first_copy(nn::ParamId id, const ShardPiece& piece) const {
  if (!piece.first_copy) return false;
  const auto& partial = (*specs_)[static_cast<std::size_t>(id.index)].grad_partial_over;
  // A tied embedding of which the last stage holds a copy; a table that every stage holds.
  const bool copied = std::any_of(partial.begin(), partial.end(), [](parallel::Group group) {
    return group == parallel::Group::kEmbedding || group == parallel::Group::kPipeline;
  });
  return !copied || !parallel_ || parallel_->parallel.coordinate(parallel::Axis::kPipeline) == 0;
}

ShardSpec ParameterStore::written(nn::ParamId id) const {
  ShardSpec shard = held(id);
  const parallel::Group copies = (*specs_)[static_cast<std::size_t>(id.index)].copies;
  const bool whole = !sharded() || holds_bytes(id);
  if (parallel_ && whole && parallel_->shard(copies) > 0) shard.pieces.clear();
  std::erase_if(shard.pieces, [&](const ShardPiece& piece) { return !is_first_copy(id, piece); });
  return shard;
}

// The held part of a parameter in memory that begins at element `origin` of its bucket.
TensorView ParameterStore::part(TensorView bucket, std::int64_t origin, nn::ParamId id) const {
  const FlatRange range = held_range(id);
  const TensorView view = part_of(bucket, {layout_.member(id.index).begin + range.begin - origin,
                                           layout_.member(id.index).begin + range.end - origin});
  return sharded() ? view : view.reshape((*specs_)[static_cast<std::size_t>(id.index)].shard.local);
}

TensorView ParameterStore::master(nn::ParamId id) {
  if (holds_bytes(id)) return bytes_of(id);
  const int b = layout_.bucket_of(id.index);
  const Arena::Id separate = masters_[static_cast<std::size_t>(b)];
  if (separate) return held_part(arena_->view(separate), id);
  const TensorView value = arena_->view(values_[static_cast<std::size_t>(b)]);
  return window_ ? held_part(value, id) : part(value, 0, id);
}

TensorView ParameterStore::held_part(TensorView bucket, nn::ParamId id) const {
  return part(bucket, sharded() ? own_range(layout_.bucket_of(id.index)).begin : 0, id);
}

bool ParameterStore::has_separate_master(nn::ParamId id) const {
  return static_cast<bool>(masters_[static_cast<std::size_t>(layout_.bucket_of(id.index))]);
}

TensorView ParameterStore::held_value(nn::ParamId id) {
  if (!has_separate_master(id)) return {};
  const int b = layout_.bucket_of(id.index);
  const TensorView value = arena_->view(values_[static_cast<std::size_t>(b)]);
  return window_ ? held_part(value, id) : part(value, 0, id);
}

void ParameterStore::post_gather(int b, TensorView own, TensorView whole) {
  marked(observer_, "post weights", b, [&] {
    gathers_[static_cast<std::size_t>(b)] =
        parallel_->parallel.along(layout_.bucket(b).copies).all_gather(own, whole, parallel_->stream);
  });
}

void ParameterStore::wait_gather(int b) {
  auto& gather = gathers_[static_cast<std::size_t>(b)];
  if (!gather) return;
  marked(observer_, "wait for weights", b, [&] { gather->wait(); });
  gather.reset();
}

void ParameterStore::settle() {
  for (std::size_t b = 0; b < gathers_.size(); ++b) wait_gather(static_cast<int>(b));
  if (!window_) return;
  for (int unit = 0; unit < params_->units(); ++unit) window_->leave(unit);
  last_unit_ = -1;
}

void ParameterStore::publish(bool frozen) {
  if (window_ || !sharded()) return;
  for (std::size_t b = 0; b < values_.size(); ++b) {
    const FlatBucket& bucket = layout_.buckets()[b];
    if (bucket.shards == 1 || !(bucket.trained || frozen)) continue;
    const TensorView whole = arena_->view(values_[b]);
    post_gather(static_cast<int>(b), part_of(whole, own_range(static_cast<int>(b))), whole);
  }
  if (!parallel_->overlap) settle();
}

void ParameterStore::gather_unit(int unit) {
  if (const int old = window_->occupant(unit); old >= 0) wait_unit(old);
  window_->enter(unit);
  for (const int b : window_->buckets_of(unit))
    post_gather(b, arena_->view(values_[static_cast<std::size_t>(b)]), window_->view(b));
}

void ParameterStore::wait_unit(int unit) {
  for (const int b : window_->buckets_of(unit)) wait_gather(b);
}

// Blocks are walked up in forward and down in backward passes: the next in the direction of the last move is
// fetched while this one computes.
void ParameterStore::prefetch(int unit) {
  const int next = unit + (last_unit_ < unit ? 1 : -1);
  last_unit_ = unit;
  if (!parallel_->overlap || !params_->is_block(unit) || next < 0 || next >= params_->units() ||
      !params_->is_block(next) || window_->buckets_of(next).empty() || window_->resident(next))
    return;
  if (window_->occupant(next) != unit) gather_unit(next);
}

}  // namespace stoa::optim
