#include "optim/gradient_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/partial_gradients.h"

namespace stoa::optim {

GradientStore::GradientStore(Arena& arena, const nn::ParamList& params, nn::Precision precision)
    : arena_(&arena),
      params_(&params),
      first_use_(params.specs().size(), -1),
      written_(params.grads().size(), false) {
  for (std::size_t g = 0; g < params.grads().size(); ++g) {
    const int p = params.grads()[g].index;
    const auto& spec = params.specs()[p];
    const bool tied = first_use_[p] >= 0;
    if (!tied) first_use_[p] = static_cast<int>(g);
    accumulators_.push_back(arena.declare(MemoryCategory::kGradients,
                                          {fmt::format("gradient{}.{}", tied ? " (tied)" : "", spec.name),
                                           precision.vectors(), spec.shard.local}));
  }
}

void GradientStore::begin_step() { written_.assign(written_.size(), false); }

nn::GradTarget GradientStore::target(nn::GradId id) {
  return {arena_->view(accumulators_[id.index]), static_cast<bool>(written_[id.index])};
}

void GradientStore::notify(nn::GradId id) { written_[id.index] = true; }

void GradientStore::finish(ops::OpContext& ops, const parallel::ParallelContext& parallel) {
  for (std::size_t g = 0; g < accumulators_.size(); ++g)
    if (!written_[g]) ops::run(ops, ops::FillZero{arena_->view(accumulators_[g])});
  for (std::size_t g = 0; g < accumulators_.size(); ++g) {
    const int first = first_use_[params_->grads()[g].index];
    if (first != static_cast<int>(g))
      ops::run(ops, ops::AddTo{arena_->view(accumulators_[g]), arena_->view(accumulators_[first])});
  }
  for (std::size_t p = 0; p < params_->specs().size(); ++p)
    nn::sum_partial_gradient(ops, parallel, params_->specs()[p], gradient({static_cast<int>(p)}));
  const auto add_over = [&](parallel::Group group, int parameter) {
    parallel.along(group).all_reduce(gradient({parameter}), comm::ReduceOp::kSum, ops.stream)->wait();
  };
  for (std::size_t p = 0; p < first_use_.size(); ++p) {
    const auto& axes = params_->specs()[p].grad_partial_over;
    if (std::find(axes.begin(), axes.end(), parallel::Axis::kPipeline) != axes.end())
      add_over(parallel::Group::kEmbedding, static_cast<int>(p));
  }
  for (std::size_t p = 0; p < first_use_.size(); ++p)
    add_over(parallel::Group::kDataContext, static_cast<int>(p));
}

TensorView GradientStore::gradient(nn::ParamId id) {
  return arena_->view(accumulators_[first_use_[id.index]]);
}

}  // namespace stoa::optim
