#include "nn/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace stoa::nn {

std::int64_t RelativeBuckets::bucket_of(std::int64_t offset) const {
  const std::int64_t buckets = bidirectional ? count / 2 : count;
  const std::int64_t first = bidirectional && offset > 0 ? buckets : 0;
  const std::int64_t distance = bidirectional ? std::abs(offset) : std::max<std::int64_t>(-offset, 0);
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  // In fp32, as every implementation has it: bucket borders are where it rounds.
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
  const auto above = static_cast<std::int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(buckets - 1, exact + above);
}

std::vector<double> RelativeBuckets::buckets_of_offsets() const {
  std::vector<double> out;
  for (std::int64_t offset = -max_distance; offset <= max_distance; ++offset)
    out.push_back(static_cast<double>(bucket_of(offset)));
  return out;
}

ParamSpec RelativeBias::spec(const RelativeBiasOptions& o) {
  ParamSpec spec;
  spec.name = o.name + ".weight";
  spec.shard = ShardSpec::whole(spec.name, {o.buckets.count, o.heads});
  if (o.place.split()) {
    spec.shard.local = {o.buckets.count, o.local.count};
    spec.shard.pieces[0].column_begin = o.local.begin;
    spec.shard.pieces[0].column_count = o.local.count;
  }
  spec.init = {InitKind::kNormal, o.deviation};
  spec.full_precision = true;
  return spec;
}

void RelativeBias::declare_table(ParamList& params, const RelativeBiasOptions& o) {
  ParamSpec table = spec(o);
  table.grad_partial_over.push_back(parallel::Group::kPipeline);
  table.uses = o.layers;
  params.add(std::move(table));
}

ParamId RelativeBias::find(const ParamList& params, const RelativeBiasOptions& options) {
  const std::string name = options.name + ".weight";
  for (std::size_t i = 0; i < params.specs().size(); ++i)
    if (params.specs()[i].name == name) return {static_cast<int>(i)};
  return {};
}

void RelativeBias::declare(ParamList& params) {
  if (options_.own) {
    weight_ = params.add(spec(options_));
    return;
  }
  const ParamId table = find(params, options_);
  require<InternalError>(static_cast<bool>(table), "'{}' is used before it is declared", options_.name);
  weight_ = params.tie(table, options_.layer);
}

TensorView RelativeBias::allocate(Pass& pass) const {
  const TensorView weight = pass.params.get(weight_.value);
  return pass.ops.scratch.allocate(weight.dtype, {options_.buckets.offsets(), weight.shape[1]});
}

TensorView RelativeBias::table(Pass& pass) const {
  const TensorView out = allocate(pass);
  ops::run(pass.ops, ops::EmbeddingForward{.tokens = index(pass),
                                           .table = pass.params.get(weight_.value),
                                           .positions = {},
                                           .position_table = {},
                                           .dropout = {},
                                           .y = out});
  return out;
}

TensorView RelativeBias::zero_gradient(Pass& pass) const {
  const TensorView out = allocate(pass);
  ops::run(pass.ops, ops::FillZero{.y = out});
  return out;
}

void RelativeBias::add_gradient(Pass& pass, TensorView gradient) const {
  if (!weight_.trained()) return;
  const GradTarget target = pass.grads->target(weight_.grad);
  if (!target.accumulate) ops::run(pass.ops, ops::FillZero{.y = target.tensor});
  ops::run(pass.ops, ops::EmbeddingBackward{.tokens = index(pass),
                                            .positions = {},
                                            .dropout = {},
                                            .dy = gradient,
                                            .dtable = target.tensor,
                                            .dposition_table = {}});
  pass.grads->notify(weight_.grad);
}

}  // namespace stoa::nn
