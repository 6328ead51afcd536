#include "nn/grouped_linear.h"

#include <fmt/format.h>

#include "ops/elementwise.h"
#include "ops/expert_bias.h"
#include "ops/quantised_linear.h"

namespace stoa::nn {

GroupedLinear::GroupedLinear(GroupedLinearOptions options)
    : options_(std::move(options)),
      held_(options_.place.experts(options_.experts)),
      columns_(options_.place.columns(options_.ffn)) {
  const auto& o = options_;
  const auto parts = static_cast<std::int64_t>(o.parts.size());
  outputs_ = o.narrows ? o.hidden : parts * columns_.count;
  inputs_ = o.narrows ? columns_.count : o.hidden;
}

ParamSpec GroupedLinear::spec(bool matrix) const {
  const auto& o = options_;
  const char* suffix = matrix ? "weight" : "bias";
  ParamSpec spec;
  spec.name = fmt::format("{}.experts.{}.{}", o.layer, o.name, suffix);
  spec.init = {matrix ? InitKind::kNormal : InitKind::kZeros, o.deviation};
  spec.decay = matrix;
  spec.copies = parallel::Group::kExpertData;
  std::int64_t row = 0;
  for (std::int64_t e = held_.begin; e < held_.end(); ++e) {
    if (matrix) spec.products.push_back(fmt::format("{}.experts.{}.{}", o.layer, e, o.name));
    for (const auto& part : o.parts) {
      ShardPiece piece;
      piece.name = fmt::format("{}.experts.{}.{}.{}", o.layer, e, part, suffix);
      const std::int64_t outputs = o.narrows ? o.hidden : o.ffn, inputs = o.narrows ? o.ffn : o.hidden;
      piece.global = matrix ? Shape{outputs, inputs} : Shape{outputs};
      piece.begin = o.narrows ? 0 : columns_.begin;
      piece.count = o.narrows ? o.hidden : columns_.count;
      piece.memory_row = row;
      if (matrix) {
        piece.column_begin = o.narrows ? columns_.begin : 0;
        piece.column_count = inputs_;
      } else if (o.narrows && o.place.tensor_size > 1) {
        piece.shared = true;
        piece.first_copy = o.place.tensor_rank == 0;
      }
      row += piece.count;
      spec.shard.pieces.push_back(std::move(piece));
    }
  }
  spec.shard.local = matrix ? Shape{row, inputs_} : Shape{row};
  return spec;
}

void GroupedLinear::declare(ParamList& params) {
  ParamSpec matrix = spec(true);
  params.hold_as_stored(matrix, held_.count);
  weight_ = params.add(std::move(matrix));
  stored_ = params.spec(weight_.value).stored;
  const auto& o = options_;
  if (o.bias) bias_ = params.add(spec(false));
  low_rank_.declare(params, {.layer = o.layer,
                             .parts = o.parts,
                             .narrows = o.narrows,
                             .experts = held_,
                             .columns = columns_,
                             .inputs = o.narrows ? o.ffn : o.hidden,
                             .outputs = o.narrows ? o.hidden : o.ffn,
                             .held_inputs = inputs_,
                             .held_outputs = outputs_ / static_cast<std::int64_t>(o.parts.size()),
                             .place = o.place});
}

TensorView GroupedLinear::largest(Pass& pass, Fp8Tensor tensor, TensorView x, TensorView groups) const {
  const auto& place = options_.place;
  const TensorView all = pass.ops.scratch.allocate(accumulation_type(x.dtype), {options_.experts}),
                   own = all.slice(held_.begin, held_.count);
  ops::run(pass.ops, ops::FillZero{all});
  ops::run(pass.ops, ops::GroupedAbsoluteMax{.x = x, .groups = groups, .amax = own});
  const auto over = [&](parallel::Group group, TensorView amax) {
    pass.parallel.along(group).all_reduce(amax, comm::ReduceOp::kMax, pass.ops.stream)->wait();
  };
  // An expert's rows of a microbatch may be spread over the ranks that share its samples, whichever experts
  // these hold: all of them compare all experts.
  if (tensor != Fp8Tensor::kWeight && place.ranks_per_sample > 1)
    for (const auto group : {parallel::Group::kTensor, parallel::Group::kContext}) over(group, all);
  if (place.tensor_size > 1) over(parallel::Group::kExpertTensor, own);
  return own;
}

GroupedLinear::Codes GroupedLinear::quantize(Pass& pass, Fp8Tensor tensor, TensorView x,
                                             TensorView groups) const {
  const Fp8& fp8 = *pass.fp8;
  Scratch& scratch = pass.ops.scratch;
  const Codes out{scratch.allocate(fp8.type_of(tensor), x.shape),
                  scratch.allocate(accumulation_type(x.dtype), {held_.count})};
  Scratch::Frame frame(scratch);
  const auto amax = amax_of(pass, weight_.value, tensor, [&] { return largest(pass, tensor, x, groups); });
  ops::run(pass.ops, ops::GroupedQuantize{.x = x,
                                          .groups = groups,
                                          .amax = amax.scaling,
                                          .y = out.rows,
                                          .inverse_scale = out.inverse_scales,
                                          .seen = amax.seen,
                                          .margin = fp8.margin});
  return out;
}

void GroupedLinear::forward(Pass& pass, TensorView x, TensorView sorted, TensorView y,
                            const RowWeights& weights) const {
  multiply(pass, x, sorted, y);
  if (low_rank_) low_rank_.forward(pass, x, sorted, y);
  if (brings_bias())
    ops::run(pass.ops, ops::ExpertBias{.bias = by_expert(pass.params.get(bias_.value)),
                                       .sorted_experts = sorted,
                                       .order = weights.order,
                                       .weights = weights.weights,
                                       .y = y});
}

void GroupedLinear::multiply(Pass& pass, TensorView x, TensorView sorted, TensorView y) const {
  if (stored_.count > 0) {
    ops::run(
        pass.ops,
        ops::GroupedQuantisedLinear{
            .x = x, .w = pass.params.get(weight_.value), .shape = stored_, .sorted_experts = sorted, .y = y});
    return;
  }
  ops::GroupedLinearForward op{.x = x, .w = pass.params.get(weight_.value), .sorted_experts = sorted, .y = y};
  Scratch::Frame frame(pass.ops.scratch);
  if (pass.fp8) {
    constexpr std::int64_t kMultiple = ops::ScaledProduct::kMultiple;
    require<ConfigError>(inputs_ % kMultiple == 0 && outputs_ % kMultiple == 0,
                         "fp8: '{}.experts.{}' is [{}, {}] on a rank, expected multiples of {}: choose other "
                         "sizes, fewer tensor-parallel ranks, or leave out model.fp8",
                         options_.layer, options_.name, outputs_, inputs_, kMultiple);
    const Codes x8 = quantize(pass, Fp8Tensor::kInput, x, sorted),
                w8 = quantize(pass, Fp8Tensor::kWeight, op.w, {});
    op.x = x8.rows, op.inverse_x = x8.inverse_scales;
    op.w = w8.rows, op.inverse_w = w8.inverse_scales;
  }
  ops::run(pass.ops, op);
}

void GroupedLinear::backward_bias(Pass& pass, TensorView dy, TensorView sorted, const RowWeights& weights,
                                  TensorView dweights, bool begin, bool end) const {
  if (bias_.trained()) {
    const GradTarget target = pass.grads->target(bias_.grad);
    ops::run(pass.ops, ops::ExpertBiasBackward{.dy = dy,
                                               .sorted_experts = sorted,
                                               .order = weights.order,
                                               .weights = weights.weights,
                                               .dbias = by_expert(target.tensor),
                                               .accumulate = target.accumulate || !begin});
    if (end) pass.grads->notify(bias_.grad);
  }
  if (dweights && brings_bias())
    ops::run(pass.ops, ops::ExpertBiasBackwardWeights{.dy = dy,
                                                      .bias = by_expert(pass.params.get(bias_.value)),
                                                      .sorted_experts = sorted,
                                                      .order = weights.order,
                                                      .dweights = dweights});
}

void GroupedLinear::backward_input(Pass& pass, TensorView dy, TensorView sorted, TensorView dx) const {
  ops::GroupedLinearBackwardInput op{
      .dy = dy, .w = pass.params.get(weight_.value), .sorted_experts = sorted, .dx = dx};
  Scratch::Frame frame(pass.ops.scratch);
  if (pass.fp8) {
    const Codes dy8 = quantize(pass, Fp8Tensor::kOutputGradient, dy, sorted),
                w8 = quantize(pass, Fp8Tensor::kWeight, op.w, {});
    op.dy = dy8.rows, op.inverse_dy = dy8.inverse_scales;
    op.w = w8.rows, op.inverse_w = w8.inverse_scales;
  }
  ops::run(pass.ops, op);
  if (low_rank_) low_rank_.backward_input(pass, dy, sorted, dx);
}

void GroupedLinear::backward_weight(Pass& pass, TensorView x, TensorView dy, TensorView sorted) const {
  if (low_rank_) low_rank_.backward_weight(pass, {x, dy, sorted});
  if (!weight_.trained()) return;
  const GradTarget target = pass.grads->target(weight_.grad);
  ops::GroupedLinearBackwardWeight op{
      .x = x, .dy = dy, .sorted_experts = sorted, .dw = target.tensor, .accumulate = target.accumulate};
  Scratch::Frame frame(pass.ops.scratch);
  if (pass.fp8 && pass.fp8->weight_gradient) {
    const Codes x8 = quantize(pass, Fp8Tensor::kInput, x, sorted),
                dy8 = quantize(pass, Fp8Tensor::kOutputGradient, dy, sorted);
    op.x = x8.rows, op.inverse_x = x8.inverse_scales;
    op.dy = dy8.rows, op.inverse_dy = dy8.inverse_scales;
  }
  ops::run(pass.ops, op);
  pass.grads->notify(weight_.grad);
}

GroupedLinear::Carry GroupedLinear::carry(Pass& pass) const {
  return {carry_of(pass, weight_, outputs_), low_rank_.carry(pass)};
}

void GroupedLinear::add_weight_gradient(Pass& pass, const GroupedRows& rows, const GradientPart& part,
                                        const Carry& carry) const {
  require<InternalError>(!pass.fp8, "rows of '{}' come in parts, in FP8", options_.layer);
  if (low_rank_) low_rank_.add_weight_gradient(pass, rows, part, carry.branches);
  add_gradient_part(pass, weight_, rows, part, carry.weight);
}

void GroupedLinear::end_weight_gradient(Pass& pass) const {
  low_rank_.end_weight_gradient(pass);
  notify_gradient(pass, weight_);
}

}  // namespace stoa::nn
