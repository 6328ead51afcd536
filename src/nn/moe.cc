#include "nn/moe.h"

#include <fmt/format.h>

#include "ops/elementwise.h"

namespace stoa::nn {

Moe::Moe(const MoeOptions& o) : options_(o), raw_width_(o.gated ? 2 * o.ffn : o.ffn) {
  if (o.shared_ffn == 0) return;
  shared_ = std::make_unique<Mlp>(MlpOptions{.name = o.name + ".shared",
                                             .hidden = o.hidden,
                                             .ffn = o.shared_ffn,
                                             .activation = o.activation,
                                             .gated = o.gated,
                                             .bias = false,
                                             .deviation = o.deviation,
                                             .output_deviation = o.output_deviation,
                                             .place = {}});
}

void Moe::declare_params(ParamList& params) {
  const auto& o = options_;
  ParamSpec router;
  router.name = o.name + ".router.weight";
  router.shard = ShardSpec::whole(router.name, {o.experts, o.hidden});
  router.init = {InitKind::kNormal, o.deviation};
  router.full_precision = true;
  router_ = params.add(std::move(router));
  // One matrix holds those of all experts, one below the other.
  const auto stacked = [&](const char* name, std::vector<std::string> parts, std::int64_t rows,
                           std::int64_t columns, double deviation) {
    ParamSpec spec;
    spec.name = o.name + ".experts." + name + ".weight";
    spec.init = {InitKind::kNormal, deviation};
    std::int64_t row = 0;
    for (std::int64_t e = 0; e < o.experts; ++e)
      for (const auto& part : parts) {
        ShardPiece piece;
        piece.name = fmt::format("{}.experts.{}.{}.weight", o.name, e, part);
        piece.global = {rows, columns};
        piece.count = rows;
        piece.memory_row = row;
        piece.column_count = columns;
        row += rows;
        spec.shard.pieces.push_back(std::move(piece));
      }
    spec.shard.local = {row, columns};
    return params.add(std::move(spec));
  };
  up_ = o.gated ? stacked("gate_up", {"gate", "up"}, o.ffn, o.hidden, o.deviation)
                : stacked("up", {"up"}, o.ffn, o.hidden, o.deviation);
  down_ = stacked("down", {"down"}, o.hidden, o.ffn, o.output_deviation);
}

void Moe::declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
                  int input) {
  const auto& o = options_;
  declare_params(params);
  input_ = input;
  const auto activation = [&](const char* name, DType type, std::int64_t columns, Producer producer,
                              void (Moe::*make)(Pass&, Saved&) const, bool weight_input = false) {
    return table.declare({.tensor = {o.name + "." + name, type, {tokens, columns}},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  logits_ = activation("logits", precision.vectors(), o.experts, Producer::kSmall, &Moe::make_logits);
  experts_ = activation("experts", DType::kI32, o.chosen, Producer::kSmall, &Moe::make_choice);
  weights_ = activation("weights", precision.vectors(), o.chosen, Producer::kSmall, &Moe::make_choice);
  order_ = activation("order", DType::kI32, o.chosen, Producer::kSmall, &Moe::make_groups, true);
  place_ = activation("place", DType::kI32, o.chosen, Producer::kSmall, &Moe::make_groups);
  sorted_ = activation("sorted experts", DType::kI32, o.chosen, Producer::kSmall, &Moe::make_groups, true);
  gathered_ = activation("gathered", precision.compute, o.chosen * o.hidden, Producer::kActivation,
                         &Moe::make_gathered, true);
  raw_ = activation("raw", precision.compute, o.chosen * raw_width_, Producer::kLinear, &Moe::make_raw);
  if (shared_) shared_->declare(params, table, tokens, precision, input);
  scaled_ = activation("scaled", precision.compute, o.chosen * o.ffn, Producer::kActivation,
                       &Moe::make_scaled, true);
  output_gradient_ =
      table.declare_stash({o.name + ".output gradient", precision.compute, {tokens, o.hidden}});
  raw_gradient_ =
      table.declare_stash({o.name + ".raw gradient", precision.compute, {tokens, o.chosen * raw_width_}});
  logits_gradient_ =
      table.declare_stash({o.name + ".logits gradient", precision.vectors(), {tokens, o.experts}});
}

TensorView Moe::rows(TensorView by_token) const {
  return by_token.reshape({by_token.shape[0] * options_.chosen, by_token.shape[1] / options_.chosen});
}

void Moe::make_logits(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), logits = saved.put(pass, logits_);
  Scratch::Frame frame(pass.ops.scratch);
  TensorView wide = x;
  if (x.dtype != logits.dtype) {
    wide = pass.ops.scratch.allocate(logits.dtype, x.shape);
    ops::run(pass.ops, ops::Cast{.x = x, .y = wide});
  }
  ops::run(pass.ops,
           ops::LinearForward{.x = wide, .w = pass.params.get(router_.value), .bias = {}, .y = logits});
}

void Moe::make_choice(Pass& pass, Saved& saved) const {
  const TensorView logits = saved.get(pass, logits_), experts = saved.put(pass, experts_),
                   weights = saved.put(pass, weights_);
  ops::run(
      pass.ops,
      ops::RouterForward{
          .options = options_.router, .logits = logits, .bias = {}, .experts = experts, .weights = weights});
}

void Moe::make_groups(Pass& pass, Saved& saved) const {
  const TensorView experts = saved.get(pass, experts_), order = saved.put(pass, order_),
                   place = saved.put(pass, place_), sorted = saved.put(pass, sorted_);
  ops::run(pass.ops, ops::GroupByExpert{.expert_count = options_.experts,
                                        .experts = experts,
                                        .order = order,
                                        .place = place,
                                        .sorted_experts = sorted});
}

void Moe::make_gathered(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), order = saved.get(pass, order_);
  ops::run(pass.ops, ops::GatherRows{.x = x, .order = order, .y = rows(saved.put(pass, gathered_))});
}

void Moe::make_raw(Pass& pass, Saved& saved) const {
  const TensorView x = rows(saved.get(pass, gathered_)), sorted = saved.get(pass, sorted_);
  ops::run(pass.ops, ops::GroupedLinearForward{.x = x,
                                               .w = pass.params.get(up_.value),
                                               .sorted_experts = sorted,
                                               .y = rows(saved.put(pass, raw_))});
}

void Moe::make_scaled(Pass& pass, Saved& saved) const {
  const TensorView raw = rows(saved.get(pass, raw_)), order = saved.get(pass, order_),
                   weights = saved.get(pass, weights_);
  saved.get(pass, place_);  // forward() reads them inside a frame of temporaries
  saved.get(pass, sorted_);
  if (shared_) saved.get(pass, shared_->last());
  const TensorView scaled = rows(saved.put(pass, scaled_));
  ops::run(pass.ops, ops::ActivationForward{
                         .kind = options_.activation, .gated = options_.gated, .x = raw, .y = scaled});
  ops::run(pass.ops, ops::ScaleRows{.x = scaled, .order = order, .weights = weights, .y = scaled});
}

void Moe::forward(Pass& pass, Saved& saved, TensorView y) const {
  const TensorView scaled = rows(saved.get(pass, scaled_)), place = saved.get(pass, place_),
                   sorted = saved.get(pass, sorted_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView out = pass.ops.scratch.allocate(y.dtype, {scaled.rows(), options_.hidden});
    ops::run(pass.ops,
             ops::GroupedLinearForward{
                 .x = scaled, .w = pass.params.get(down_.value), .sorted_experts = sorted, .y = out});
    ops::run(pass.ops, ops::SumRows{.x = out, .place = place, .y = y});
  }
  if (!shared_) return;
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView out = pass.ops.scratch.allocate(y.dtype, y.shape);
  shared_->forward(pass, saved, out);
  ops::run(pass.ops, ops::AddTo{out, y});
}

void Moe::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const auto& o = options_;
  // Whatever is made again is made before the gradients' temporaries.
  const TensorView scaled = rows(saved.get(pass, scaled_)), raw = rows(saved.get(pass, raw_)),
                   gathered = rows(saved.get(pass, gathered_)), input = saved.get(pass, input_);
  const TensorView logits = saved.get(pass, logits_), experts = saved.get(pass, experts_),
                   weights = saved.get(pass, weights_), order = saved.get(pass, order_),
                   place = saved.get(pass, place_), sorted = saved.get(pass, sorted_);
  if (shared_) saved.get(pass, shared_->last());
  const TensorView draw = rows(saved.put_stash(pass, which, raw_gradient_)),
                   dlogits = saved.put_stash(pass, which, logits_gradient_);
  Scratch& scratch = pass.ops.scratch;
  const auto shared_backward = [&](TensorView target) {
    if (!shared_) return;
    TensorView gradient = dy;
    if (which == Which::kInput) {
      gradient = saved.put_stash(pass, which, shared_->output_gradient());
      ops::run(pass.ops, ops::Cast{.x = dy, .y = gradient});
    }
    shared_->backward(pass, saved, which, gradient, target);
  };
  {
    Scratch::Frame frame(scratch);
    const TensorView dweights = scratch.allocate(weights.dtype, weights.shape);
    {
      Scratch::Frame inner(scratch);
      const TensorView dactivated = scratch.allocate(scaled.dtype, scaled.shape);
      {
        Scratch::Frame innermost(scratch);
        const TensorView drows = scratch.allocate(dy.dtype, {scaled.rows(), o.hidden});
        ops::run(pass.ops, ops::GatherRows{.x = dy, .order = order, .y = drows});
        if (which == Which::kBoth) down_weight_gradient(pass, scaled, drows, sorted);
        ops::run(
            pass.ops,
            ops::GroupedLinearBackwardInput{
                .dy = drows, .w = pass.params.get(down_.value), .sorted_experts = sorted, .dx = dactivated});
      }
      const TensorView activated = scratch.allocate(scaled.dtype, scaled.shape);
      ops::run(pass.ops,
               ops::ActivationForward{.kind = o.activation, .gated = o.gated, .x = raw, .y = activated});
      ops::run(pass.ops, ops::ScaleRowsBackward{.x = activated,
                                                .dy = dactivated,
                                                .order = order,
                                                .weights = weights,
                                                .dx = dactivated,
                                                .dweights = dweights});
      ops::run(pass.ops, ops::ActivationBackward{
                             .kind = o.activation, .gated = o.gated, .x = raw, .dy = dactivated, .dx = draw});
    }
    const bool losses = o.balance != 0 || o.z != 0;
    ops::run(pass.ops, ops::RouterBackward{.options = o.router,
                                           .logits = logits,
                                           .experts = experts,
                                           .dweights = dweights,
                                           .balance = o.balance,
                                           .z = o.z,
                                           .length = losses ? pass.batch.length : 0,
                                           .state = losses ? pass.state : TensorView(),
                                           .dlogits = dlogits});
  }
  {
    Scratch::Frame frame(scratch);
    const TensorView dgathered = scratch.allocate(gathered.dtype, gathered.shape);
    ops::run(pass.ops,
             ops::GroupedLinearBackwardInput{
                 .dy = draw, .w = pass.params.get(up_.value), .sorted_experts = sorted, .dx = dgathered});
    ops::run(pass.ops, ops::SumRows{.x = dgathered, .place = place, .y = dx});
  }
  {
    Scratch::Frame frame(scratch);
    const TensorView wide = scratch.allocate(logits.dtype, dx.shape);
    ops::run(pass.ops,
             ops::LinearBackwardInput{.dy = dlogits, .w = pass.params.get(router_.value), .dx = wide});
    ops::run(pass.ops, ops::AddTo{wide, dx});
  }
  if (shared_) {
    Scratch::Frame frame(scratch);
    const TensorView dshared = scratch.allocate(dx.dtype, dx.shape);
    shared_backward(dshared);
    ops::run(pass.ops, ops::AddTo{dshared, dx});
  }
  if (which != Which::kBoth) return;
  up_weight_gradient(pass, gathered, draw, sorted);
  router_weight_gradient(pass, input, dlogits);
}

void Moe::down_weight_gradient(Pass& pass, TensorView scaled, TensorView drows, TensorView sorted) const {
  const GradTarget target = pass.grads->target(down_.grad);
  ops::run(pass.ops, ops::GroupedLinearBackwardWeight{.x = scaled,
                                                      .dy = drows,
                                                      .sorted_experts = sorted,
                                                      .dw = target.tensor,
                                                      .accumulate = target.accumulate});
  pass.grads->notify(down_.grad);
}

void Moe::up_weight_gradient(Pass& pass, TensorView gathered, TensorView draw, TensorView sorted) const {
  const GradTarget target = pass.grads->target(up_.grad);
  ops::run(pass.ops, ops::GroupedLinearBackwardWeight{.x = gathered,
                                                      .dy = draw,
                                                      .sorted_experts = sorted,
                                                      .dw = target.tensor,
                                                      .accumulate = target.accumulate});
  pass.grads->notify(up_.grad);
}

void Moe::router_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const {
  const GradTarget target = pass.grads->target(router_.grad);
  Scratch::Frame frame(pass.ops.scratch);
  TensorView wide = x;
  if (x.dtype != dlogits.dtype) {
    wide = pass.ops.scratch.allocate(dlogits.dtype, x.shape);
    ops::run(pass.ops, ops::Cast{.x = x, .y = wide});
  }
  ops::run(pass.ops,
           ops::LinearBackwardWeight{
               .x = wide, .dy = dlogits, .dw = target.tensor, .dbias = {}, .accumulate = target.accumulate});
  pass.grads->notify(router_.grad);
}

void Moe::backward_weight(Pass& pass, Saved& saved) const {
  const TensorView scaled = rows(saved.get(pass, scaled_)), gathered = rows(saved.get(pass, gathered_)),
                   order = saved.get(pass, order_), sorted = saved.get(pass, sorted_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dy = saved.get_stash(output_gradient_);
    const TensorView drows = pass.ops.scratch.allocate(dy.dtype, {scaled.rows(), options_.hidden});
    ops::run(pass.ops, ops::GatherRows{.x = dy, .order = order, .y = drows});
    down_weight_gradient(pass, scaled, drows, sorted);
  }
  up_weight_gradient(pass, gathered, rows(saved.get_stash(raw_gradient_)), sorted);
  router_weight_gradient(pass, saved.get(pass, input_), saved.get_stash(logits_gradient_));
  if (shared_) shared_->backward_weight(pass, saved);
}

}  // namespace stoa::nn
