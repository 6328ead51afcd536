#include "optim/gradient_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/partial_gradients.h"

namespace stoa::optim {

GradientStore::GradientStore(Arena& arena, const nn::ParamList& params, nn::Precision precision,
                             const ParameterStore& parameters)
    : arena_(&arena),
      params_(&params),
      parameters_(&parameters),
      layout_(&parameters.layout()),
      parallel_(*parameters.data_parallel()),
      further_(params.grads().size()),
      uses_(layout_->buckets().size(), 0),
      reducer_(arena, *layout_, parallel_, precision.vectors()),
      written_(params.grads().size(), false),
      progress_(layout_->buckets().size()) {
  const DType type = precision.vectors();
  if (parallel_.gradient_shards())
    window_ = std::make_unique<UnitWindow>(
        arena, params, *layout_,
        UnitWindow::Options{"gradients of a microbatch", [type](const FlatBucket&) { return type; },
                            may_pass});
  for (std::size_t b = 0; b < layout_->buckets().size(); ++b) {
    const FlatBucket& bucket = layout_->buckets()[b];
    if (!bucket.trained) {
      buckets_.emplace_back();
      continue;
    }
    const std::int64_t count = passes_window(bucket) ? layout_->share(static_cast<int>(b)) : bucket.elements;
    buckets_.push_back(arena.declare(
        MemoryCategory::kGradients,
        {fmt::format("gradient.{}",
                     params.specs()[static_cast<std::size_t>(bucket.members[0].parameter)].name),
         type, Shape{count}}));
  }
  std::vector<bool> seen(params.specs().size(), false);
  for (std::size_t g = 0; g < params.grads().size(); ++g) {
    const auto p = static_cast<std::size_t>(params.grads()[g].index);
    ++uses_[static_cast<std::size_t>(layout_->bucket_of(static_cast<int>(p)))];
    if (seen[p])
      further_[g] = arena.declare(
          MemoryCategory::kGradients,
          {fmt::format("gradient (tied).{}", params.specs()[p].name), type, params.specs()[p].shard.local});
    seen[p] = true;
  }
}

void GradientStore::begin_step(ops::OpContext& ops, int microbatches) {
  ops_ = &ops;
  microbatches_ = microbatches;
  written_.assign(written_.size(), false);
  progress_.assign(progress_.size(), {});
}

TensorView GradientStore::whole(int bucket) {
  return passes_window(layout_->bucket(bucket)) ? window_->view(bucket)
                                                : arena_->view(buckets_[static_cast<std::size_t>(bucket)]);
}

nn::GradTarget GradientStore::target(nn::GradId id) {
  const auto g = static_cast<std::size_t>(id.index);
  if (further_[g]) return {arena_->view(further_[g]), static_cast<bool>(written_[g])};
  const int p = params_->grads()[g].index, b = layout_->bucket_of(p);
  if (passes_window(layout_->bucket(b))) {
    enter(layout_->bucket(b).unit);
    absorb(b);  // the microbatch before
  }
  return {accumulator(id), static_cast<bool>(written_[g])};
}

TensorView GradientStore::accumulator(nn::GradId id) {
  const auto g = static_cast<std::size_t>(id.index);
  if (further_[g]) return arena_->view(further_[g]);
  const int p = params_->grads()[g].index;
  const FlatMember& member = layout_->member(p);
  return part_of(whole(layout_->bucket_of(p)), {member.begin, member.begin + member.count})
      .reshape(params_->specs()[static_cast<std::size_t>(p)].shard.local);
}

void GradientStore::notify(nn::GradId id) {
  const auto g = static_cast<std::size_t>(id.index);
  written_[g] = true;
  const int b = layout_->bucket_of(params_->grads()[g].index);
  const FlatBucket& bucket = layout_->bucket(b);
  Progress& progress = progress_[static_cast<std::size_t>(b)];
  ++progress.notices;
  const int uses = uses_[static_cast<std::size_t>(b)];
  if (passes_window(bucket)) {
    if (progress.notices < uses) return;
    send(b);
    if (!parallel_.overlap) absorb(b);
  } else if (parallel_.overlap && !bucket.late && progress.notices == uses * microbatches_) {
    progress.under_way = true;
    reducer_.start(b, whole(b), *ops_);
  }
}

void GradientStore::enter(int unit) {
  if (!window_->resident(unit)) {
    if (const int old = window_->occupant(unit); old >= 0)
      for (const int b : window_->buckets_of(old)) {
        require<InternalError>(progress_[static_cast<std::size_t>(b)].notices == 0,
                               "gradients of unit {} are due while those of unit {} are not complete", unit,
                               old);
        absorb(b);
      }
    window_->enter(unit);
  }
  window_->used(unit);
}

// A bucket of the window is complete for this microbatch.
void GradientStore::send(int bucket) {
  Progress& progress = progress_[static_cast<std::size_t>(bucket)];
  progress.notices = 0;
  progress.under_way = true;
  for (std::size_t g = 0; g < written_.size(); ++g)
    if (layout_->bucket_of(params_->grads()[g].index) == bucket) written_[g] = false;
  reducer_.start(bucket, whole(bucket), *ops_);
}

// The sum of a bucket of the window goes to its shard.
void GradientStore::absorb(int bucket) {
  Progress& progress = progress_[static_cast<std::size_t>(bucket)];
  if (!progress.under_way) return;
  progress.under_way = false;
  reducer_.complete(bucket, *ops_);
  const TensorView sum = part_of(window_->view(bucket), reducer_.reduced(bucket)),
                   shard = arena_->view(buckets_[static_cast<std::size_t>(bucket)]);
  if (progress.shard_written)
    ops::run(*ops_, ops::AddTo{.x = sum, .y = shard});
  else
    ops::run(*ops_, ops::Cast{.x = sum, .y = shard});
  progress.shard_written = true;
}

void GradientStore::finish(ops::OpContext& ops) {
  for (std::size_t g = 0; g < written_.size(); ++g) {
    const int b = layout_->bucket_of(params_->grads()[g].index);
    const Progress& progress = progress_[static_cast<std::size_t>(b)];
    if (written_[g] || progress.under_way) continue;
    if (!passes_window(layout_->bucket(b)) || progress.notices > 0)
      ops::run(ops, ops::FillZero{accumulator({static_cast<int>(g)})});
  }
  for (std::size_t g = 0; g < written_.size(); ++g) {
    if (!further_[g]) continue;
    const int p = params_->grads()[g].index;
    if (used_by_stages(params_->specs()[static_cast<std::size_t>(p)])) continue;
    const FlatMember& member = layout_->member(p);
    const TensorView first =
        part_of(whole(layout_->bucket_of(p)), {member.begin, member.begin + member.count});
    ops::run(ops, ops::AddTo{.x = arena_->view(further_[g]).reshape(first.shape), .y = first});
  }
  const int buckets = static_cast<int>(buckets_.size());
  for (int b = 0; b < buckets; ++b) {
    const FlatBucket& bucket = layout_->bucket(b);
    if (!bucket.trained) continue;
    Progress& progress = progress_[static_cast<std::size_t>(b)];
    if (passes_window(bucket)) {
      if (progress.notices > 0) {
        absorb(b);
        send(b);
      }
      absorb(b);
      if (!progress.shard_written)
        ops::run(ops, ops::FillZero{arena_->view(buckets_[static_cast<std::size_t>(b)])});
    } else if (!progress.under_way) {
      reduce_further(bucket, whole(b));
      reducer_.start(b, whole(b), ops);
    }
  }
  for (int b = 0; b < buckets; ++b) reducer_.complete(b, ops);
}

// A table that every stage of a pipeline holds.
bool GradientStore::used_by_stages(const nn::ParamSpec& spec) const {
  return spec.uses > 0 && parallel_.parallel.degree(parallel::Axis::kPipeline) > 1;
}

// The gradient of each use has an accumulator of its own, filled by one stage only. Adding them in order
// gives the same result as a single stage with all layers.
void GradientStore::add_uses(int parameter, TensorView sum) {
  const auto& spec = params_->specs()[static_cast<std::size_t>(parameter)];
  Scratch::Frame frame(ops_->scratch);
  const std::int64_t count = sum.elements();
  const TensorView all = ops_->scratch.allocate(sum.dtype, {spec.uses, count});
  ops::run(*ops_, ops::FillZero{all});
  const auto place = [&](std::int64_t use) { return all.slice(use, 1).reshape({count}); };
  for (std::size_t g = 0; g < further_.size(); ++g) {
    const std::int64_t use = params_->use({static_cast<int>(g)});
    if (params_->grads()[g].index != parameter || use < 0) continue;
    ops::run(*ops_, ops::Cast{.x = accumulator({static_cast<int>(g)}).reshape({count}), .y = place(use)});
  }
  parallel_.parallel.along(parallel::Group::kPipeline)
      .all_reduce(all, comm::ReduceOp::kSum, parallel_.stream)
      ->wait();
  for (std::int64_t use = 0; use < spec.uses; ++use)
    ops::run(*ops_, ops::AddTo{.x = place(use), .y = sum.reshape({count})});
}

// Gradients of a tied embedding whose copies the two ends of a pipeline hold: first stage + last; of tables
// that every stage holds: in the order of their uses. Then parts that the ranks of a tensor-parallel group
// hold.
void GradientStore::reduce_further(const FlatBucket& bucket, TensorView whole) {
  const auto& context = parallel_.parallel;
  if (std::find(bucket.partial.begin(), bucket.partial.end(), parallel::Group::kEmbedding) !=
          bucket.partial.end() &&
      context.belongs_to(parallel::Group::kEmbedding))
    context.along(parallel::Group::kEmbedding)
        .all_reduce(whole, comm::ReduceOp::kSum, parallel_.stream)
        ->wait();
  for (const FlatMember& member : bucket.members) {
    const nn::ParamSpec& spec = params_->specs()[static_cast<std::size_t>(member.parameter)];
    const TensorView gradient =
        part_of(whole, {member.begin, member.begin + member.count}).reshape(spec.shard.local);
    if (used_by_stages(spec)) add_uses(member.parameter, gradient);
    nn::sum_partial_gradient(*ops_, context, spec, gradient);
  }
}

TensorView GradientStore::reduced(int bucket, FlatRange range) {
  const bool share = passes_window(layout_->bucket(bucket));
  const std::int64_t origin = share ? reducer_.reduced(bucket).begin : 0;
  return part_of(arena_->view(buckets_[static_cast<std::size_t>(bucket)]),
                 {range.begin - origin, range.end - origin});
}

TensorView GradientStore::gradient(nn::ParamId id) {
  if (!params_->specs()[static_cast<std::size_t>(id.index)].trained) return {};
  const FlatMember& member = layout_->member(id.index);
  const FlatRange held = parameters_->held_range(id);
  const TensorView view =
      reduced(layout_->bucket_of(id.index), {member.begin + held.begin, member.begin + held.end});
  return parameters_->sharded()
             ? view
             : view.reshape(params_->specs()[static_cast<std::size_t>(id.index)].shard.local);
}

}  // namespace stoa::optim
