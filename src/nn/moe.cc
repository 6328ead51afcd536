#include "nn/moe.h"

#include <numeric>

#include "nn/gated_sublayer.h"
#include "nn/mlp.h"
#include "ops/elementwise.h"
#include "ops/fp8.h"

namespace stoa::nn {
namespace {

// Called before a grouped layer writes the experts' rows: if operations also process unused rows, those must
// be zero, so that they contribute nothing.
void clear_rows_of_nobody(Pass& pass, const ExpertExchange& exchange, TensorView rows) {
  if (!exchange.host_knows_count(rows)) ops::run(pass.ops, ops::FillZero{rows});
}

GroupedLinearOptions experts_linear(const MoeOptions& o, bool narrows) {
  using Parts = std::vector<std::string>;
  return {.layer = o.name,
          .name = narrows   ? "down"
                  : o.gated ? "gate_up"
                            : "up",
          .parts = narrows   ? Parts{"down"}
                   : o.gated ? Parts{"gate", "up"}
                             : Parts{"up"},
          .narrows = narrows,
          .experts = o.experts,
          .hidden = o.hidden,
          .ffn = o.ffn,
          .bias = o.bias,
          .deviation = narrows ? o.output_deviation : o.deviation,
          .place = o.experts_place};
}

}  // namespace

Moe::Moe(const MoeOptions& o)
    : options_(o),
      columns_(o.experts_place.columns(o.ffn)),
      raw_width_(o.gated ? 2 * columns_.count : columns_.count),
      exchange_(o.name, o.experts, o.chosen, o.experts_place),
      up_(experts_linear(o, false)),
      down_(experts_linear(o, true)) {
  parallel::check_experts(o.experts_place, o.experts, o.ffn);
  if (o.shared_ffn == 0) return;
  shared_ = std::make_unique<Mlp>(MlpOptions{.name = o.name + ".shared",
                                             .hidden = o.hidden,
                                             .ffn = o.shared_ffn,
                                             .activation = o.activation,
                                             .gated = o.gated,
                                             .clamp = o.clamp,
                                             .bias = false,
                                             .deviation = o.deviation,
                                             .output_deviation = o.output_deviation,
                                             .place = o.place});
  if (o.shared_gate)
    shared_ = std::make_unique<GatedSublayer>(
        GatedSublayerOptions{
            .name = o.name + ".shared_gate", .hidden = o.hidden, .deviation = o.deviation, .place = o.place},
        std::move(shared_));
}

void Moe::declare_params(ParamList& params) {
  const auto& o = options_;
  ParamSpec router = router_spec("weight", {o.experts, o.hidden}, InitKind::kNormal);
  router.full_precision = true;
  router_ = params.add(std::move(router));
  if (o.bias) {
    ParamSpec bias = router_spec("bias", {o.experts}, InitKind::kZeros);
    bias.decay = false;
    router_bias_ = params.add(std::move(bias));
  }
  if (o.bias_rate > 0) {
    ParamSpec bias = router_spec("expert_bias", {o.experts}, InitKind::kZeros);
    bias.decay = false;
    bias.update = UpdateRule::kExpertLoad;
    bias.update_rate = o.bias_rate;
    bias_ = params.add(std::move(bias));
  }
  up_.declare(params);
  down_.declare(params);
}

parallel::Part Moe::own_rows(std::int64_t stream_rows) const {
  const auto& place = options_.place;
  return stream_is_whole() ? parallel::part_of(stream_rows, place.size, place.rank)
                           : parallel::Part{0, stream_rows};
}

TensorView Moe::own(TensorView stream) const {
  const parallel::Part rows = own_rows(stream.rows());
  return stream.slice(rows.begin, rows.count);
}

void Moe::zero_others(Pass& pass, TensorView stream) const {
  if (stream_is_whole()) ops::run(pass.ops, ops::FillZero{stream});
}

void Moe::add_others(Pass& pass, TensorView stream) const {
  if (!stream_is_whole()) return;
  pass.parallel.along(parallel::Axis::kTensor)
      .all_reduce(stream, comm::ReduceOp::kSum, pass.ops.stream)
      ->wait();
}

void Moe::add_experts(Pass& pass, Saved& saved, TensorView all, TensorView y) const {
  const auto add = [&](TensorView rows) {
    pass.parallel.along(parallel::Group::kExpert)
        .all_reduce(rows, comm::ReduceOp::kSum, pass.ops.stream)
        ->wait();
  };
  if (!options_.place.exact) {
    exchange_.close(pass, saved, all, y);
    return add(y);
  }
  // Exactly one rank gives each row of a token: the rows are added in the order of its choices.
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t tokens = y.rows(), chosen = options_.chosen, count = tokens * chosen;
  const TensorView rows = pass.ops.scratch.allocate(y.dtype, {count, options_.hidden}),
                   places = pass.ops.scratch.allocate(DType::kI32, {tokens, chosen});
  exchange_.close(pass, saved, all, rows);
  add(rows);
  if (places.device != DeviceKind::kMeta) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    pass.ops.device->copy_from_host(places.data, numbers.data(), places.bytes(), pass.ops.stream);
    pass.ops.stream.synchronize();  // before the vector ends
  }
  ops::run(pass.ops, ops::SumRows{.x = rows, .place = places, .y = y});
}

void Moe::declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
                  int input) {
  const auto& o = options_;
  declare_params(params);
  input_ = input;
  const std::int64_t stream = o.place.stream_rows(tokens), own = own_rows(stream).count,
                     most = stream_is_whole() ? parallel::part_of(stream, o.place.size, 0).count : stream;
  require<ConfigError>(
      own > 0,
      "a microbatch of {} tokens among {} tensor-parallel ranks leaves some without a token: "
      "give longer sequences or fewer ranks",
      tokens, o.place.size);
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer,
                              void (Moe::*make)(Pass&, Saved&) const, bool weight_input = false,
                              std::int64_t least_rows = 0) {
    return table.declare({.tensor = {o.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input,
                          .least_rows = least_rows});
  };
  logits_ = activation("logits", precision.vectors(), {own, o.experts}, Producer::kSmall, &Moe::make_logits);
  experts_ = activation("experts", DType::kI32, {own, o.chosen}, Producer::kSmall, &Moe::make_choice);
  // Parts of the rows that are not kept are recomputed for the weight gradients.
  const bool again = o.buffer_factor.has_value() && o.experts_place.split();
  weights_ =
      activation("weights", precision.vectors(), {own, o.chosen}, Producer::kSmall, &Moe::make_choice, again);
  std::optional<std::int64_t> limit;
  if (o.capacity > 0) {
    kept_ = activation("kept", DType::kI32, {own, o.chosen}, Producer::kSmall, &Moe::make_kept);
    const int context = o.experts_place.ranks_per_sample / o.place.size;
    limit = o.capacity * tokens * context / o.length * o.experts_place.samples();
  }
  exchange_.declare(table, {.tokens = own,
                            .most_tokens = most,
                            .sum = precision.vectors(),
                            .choice = limit ? kept_ : experts_,
                            .weights = weights_,
                            .limit = limit,
                            .factor = o.buffer_factor});
  const std::int64_t rows = exchange_.rows();
  const auto of_rows = [&](const char* name, std::int64_t width, Producer producer,
                           void (Moe::*make)(Pass&, Saved&) const, bool weight_input) {
    return activation(name, precision.compute, {rows, width}, producer, make, weight_input,
                      exchange_.least_rows());
  };
  gathered_ = of_rows("gathered", o.hidden, Producer::kActivation, &Moe::make_gathered, true);
  raw_ = of_rows("raw", raw_width_, Producer::kLinear, &Moe::make_raw, false);
  if (shared_) shared_->declare(params, table, tokens, precision, input);
  scaled_ = of_rows("scaled", columns_.count, Producer::kActivation, &Moe::make_scaled, true);
  output_gradient_ =
      table.declare_stash({o.name + ".output gradient", precision.compute, {stream, o.hidden}});
  raw_gradient_ = table.declare_stash({o.name + ".raw gradient", precision.compute, {rows, raw_width_}},
                                      exchange_.least_rows());
  logits_gradient_ =
      table.declare_stash({o.name + ".logits gradient", precision.vectors(), {own, o.experts}});
}

void Moe::make_gathered(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_);
  exchange_.prepare(pass, saved);
  const TensorView gathered = saved.put(pass, gathered_);
  exchange_.send(pass, saved, exchange_.arrivals(pass, saved, 0, false), own(x), gathered);
}

void Moe::make_raw(Pass& pass, const Arrivals& arrivals, TensorView gathered, TensorView raw) const {
  clear_rows_of_nobody(pass, exchange_, raw);
  up_.forward(pass, gathered, arrivals.sorted, raw);
}

void Moe::make_raw(Pass& pass, Saved& saved) const {
  const TensorView gathered = saved.get(pass, gathered_);
  const Arrivals arrivals = exchange_.arrivals(pass, saved, 0, false);
  make_raw(pass, arrivals, gathered, saved.put(pass, raw_));
}

void Moe::make_scaled(Pass& pass, Saved& saved, const Arrivals& arrivals, TensorView raw,
                      TensorView scaled) const {
  const TensorView y = exchange_.came(pass, saved, arrivals, scaled);
  ops::run(pass.ops, ops::ActivationForward{.kind = options_.activation,
                                            .gated = options_.gated,
                                            .x = exchange_.came(pass, saved, arrivals, raw),
                                            .y = y,
                                            .clamp = options_.clamp});
  ops::run(
      pass.ops,
      ops::ScaleRows{.x = y, .order = arrivals.weights.order, .weights = arrivals.weights.weights, .y = y});
}

void Moe::make_scaled(Pass& pass, Saved& saved) const {
  const TensorView raw = saved.get(pass, raw_);
  exchange_.prepare(pass, saved);  // for forward(), which reads it inside a frame of temporaries
  const Arrivals arrivals = exchange_.arrivals(pass, saved, 0);
  if (shared_) saved.get(pass, shared_->last());
  make_scaled(pass, saved, arrivals, raw, saved.put(pass, scaled_));
}

Moe::Rows Moe::kept_rows(Pass& pass, Saved& saved) const {
  return {.arrivals = exchange_.arrivals(pass, saved, 0),
          .gathered = saved.get(pass, gathered_),
          .raw = saved.get(pass, raw_),
          .scaled = saved.get(pass, scaled_)};
}

Moe::Rows Moe::make_rows(Pass& pass, Saved& saved, int part) const {
  const TensorView x = own(saved.get(pass, input_));
  const Arrivals arrivals = exchange_.arrivals(pass, saved, part);
  const auto allocate = [&](std::int64_t width) {
    return pass.ops.scratch.allocate(x.dtype, {arrivals.rows(), width});
  };
  const Rows rows{.arrivals = arrivals,
                  .gathered = allocate(options_.hidden),
                  .raw = allocate(raw_width_),
                  .scaled = allocate(columns_.count)};
  exchange_.send(pass, saved, arrivals, x, rows.gathered);
  make_raw(pass, arrivals, rows.gathered, rows.raw);
  make_scaled(pass, saved, arrivals, rows.raw, rows.scaled);
  return rows;
}

void Moe::forward(Pass& pass, Saved& saved, TensorView y) const {
  const TensorView scaled = saved.get(pass, scaled_);
  const Arrivals first = exchange_.arrivals(pass, saved, 0);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView all = exchange_.open(pass, saved, y.dtype, options_.hidden);
    const auto bring_back = [&](const Arrivals& arrivals, TensorView rows) {
      const TensorView out = exchange_.outgoing(pass, arrivals, all);
      clear_rows_of_nobody(pass, exchange_, out);
      down_.forward(pass, rows, arrivals.sorted, out, down_.has_bias() ? arrivals.weights : RowWeights{});
      exchange_.bring_back(pass, saved, arrivals, out, all);
    };
    {
      Scratch::Frame inner(pass.ops.scratch);
      bring_back(first, scaled);
    }
    for (int part = 1; part < exchange_.parts(pass, saved); ++part) {
      Scratch::Frame inner(pass.ops.scratch);
      const Rows rows = make_rows(pass, saved, part);
      bring_back(rows.arrivals, rows.scaled);
    }
    if (replicated()) {
      add_experts(pass, saved, all, y);
    } else {
      zero_others(pass, y);
      exchange_.close(pass, saved, all, own(y));
      add_others(pass, y);
    }
  }
  if (!shared_) return;
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView out = pass.ops.scratch.allocate(y.dtype, y.shape);
  shared_->forward(pass, saved, out);
  ops::run(pass.ops, ops::AddTo{out, y});
}

Moe::Sums Moe::begin_sums(Pass& pass, Saved& saved, bool biases, bool weights) const {
  Sums sums{
      .parts = exchange_.parts(pass, saved), .biases = biases, .weights = weights, .up = {}, .down = {}};
  if (weights && sums.parts > 1) {
    sums.up = up_.carry(pass);
    sums.down = down_.carry(pass);
  }
  return sums;
}

GradientPart Moe::gradient_part(Pass& pass, Saved& saved, const Arrivals& arrivals) const {
  return {.rows = exchange_.came(pass, saved, arrivals, arrivals.sorted).rows(),
          .cut = arrivals.cut,
          .begins = arrivals.part == 0};
}

void Moe::down_weight_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums,
                               TensorView drows) const {
  const Arrivals& part = rows.arrivals;
  if (!sums.weights) return;
  if (sums.parts == 1) return down_.backward_weight(pass, rows.scaled, drows, part.sorted);
  down_.add_weight_gradient(pass, {rows.scaled, drows, part.sorted}, gradient_part(pass, saved, part),
                            sums.down);
  if (part.part == sums.parts - 1) down_.end_weight_gradient(pass);
}

// Of several parts, the layer says itself when it is done: after what other layers do in the meantime.
void Moe::up_weight_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums,
                             TensorView draw) const {
  if (!sums.weights || sums.parts == 1) return;
  const Arrivals& part = rows.arrivals;
  up_.add_weight_gradient(pass, {rows.gathered, draw, part.sorted}, gradient_part(pass, saved, part),
                          sums.up);
}

// dy [T, hidden] of this rank's tokens -> draw [F, raw width], and the gradient of the rows' router weights.
void Moe::raw_backward(Pass& pass, Saved& saved, const Rows& rows, const Sums& sums, TensorView dy,
                       TensorView draw, TensorView dweights) const {
  const auto& o = options_;
  const Arrivals& part = rows.arrivals;
  const auto came = [&](TensorView view) { return exchange_.came(pass, saved, part, view); };
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView dactivated = scratch.allocate(rows.scaled.dtype, rows.scaled.shape);
  TensorView of_bias;  // its part of the weights' gradient
  if (down_.has_bias() && sums.biases) {
    of_bias = scratch.allocate(part.weights.weights.dtype, part.weights.weights.shape);
    ops::run(pass.ops, ops::FillZero{of_bias});
  }
  const bool begin = part.part == 0, end = part.part == sums.parts - 1;
  {
    Scratch::Frame inner(scratch);
    const TensorView drows = scratch.allocate(dy.dtype, {part.rows(), o.hidden});
    exchange_.send(pass, saved, part, dy, drows);
    if (of_bias) down_.backward_bias(pass, drows, part.sorted, part.weights, of_bias, begin, end);
    down_weight_backward(pass, saved, rows, sums, drows);
    clear_rows_of_nobody(pass, exchange_, dactivated);
    down_.backward_input(pass, drows, part.sorted, dactivated);
  }
  const TensorView activated = scratch.allocate(rows.scaled.dtype, rows.scaled.shape);
  ops::run(pass.ops, ops::ActivationForward{.kind = o.activation,
                                            .gated = o.gated,
                                            .x = came(rows.raw),
                                            .y = came(activated),
                                            .clamp = o.clamp});
  ops::run(pass.ops, ops::ScaleRowsBackward{.x = came(activated),
                                            .dy = came(dactivated),
                                            .order = part.weights.order,
                                            .weights = part.weights.weights,
                                            .dx = came(dactivated),
                                            .dweights = dweights});
  if (of_bias) ops::run(pass.ops, ops::AddTo{.x = of_bias, .y = dweights});
  ops::run(pass.ops, ops::ActivationBackward{.kind = o.activation,
                                             .gated = o.gated,
                                             .x = came(rows.raw),
                                             .dy = came(dactivated),
                                             .dx = came(draw),
                                             .clamp = o.clamp});
  if (up_.has_bias() && sums.biases) up_.backward_bias(pass, draw, part.sorted, {}, {}, begin, end);
}

void Moe::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  require<InternalError>(!replicated(), "'{}' is distributed for inference", options_.name);
  exchange_.begin_backward();
  // Recomputation comes before the gradients' temporaries.
  saved.get(pass, scaled_);
  exchange_.prepare(pass, saved);
  const Rows first = kept_rows(pass, saved);
  const TensorView input = saved.get(pass, input_), logits = saved.get(pass, logits_);
  if (shared_) saved.get(pass, shared_->last());
  const TensorView draw = saved.put_stash(pass, which, raw_gradient_),
                   dlogits = saved.put_stash(pass, which, logits_gradient_);
  Scratch& scratch = pass.ops.scratch;
  int parts = 1;
  {
    Scratch::Frame frame(scratch);
    const TensorView dweights = scratch.allocate(logits.dtype, {logits.rows(), options_.chosen}),
                     all_weights = exchange_.open(pass, saved, logits.dtype, 1, dweights);
    const Sums sums = begin_sums(pass, saved, true, which == Which::kBoth);
    parts = sums.parts;
    const auto router_weights = [&](const Rows& rows, TensorView of_raw) {
      Scratch::Frame inner(scratch);
      const TensorView out = exchange_.outgoing_weights(pass, saved, rows.arrivals, all_weights);
      raw_backward(pass, saved, rows, sums, own(dy), of_raw, out);
      exchange_.bring_back_weights(pass, saved, rows.arrivals, out, all_weights);
      up_weight_backward(pass, saved, rows, sums, of_raw);
    };
    router_weights(first, draw);
    const TensorView all = exchange_.open(pass, saved, dx.dtype, options_.hidden);
    const auto inputs = [&](const Rows& rows, TensorView of_raw) {
      Scratch::Frame inner(scratch);
      const TensorView dgathered = exchange_.outgoing(pass, rows.arrivals, all);
      clear_rows_of_nobody(pass, exchange_, dgathered);
      up_.backward_input(pass, of_raw, rows.arrivals.sorted, dgathered);
      exchange_.bring_back(pass, saved, rows.arrivals, dgathered, all);
    };
    inputs(first, draw);
    for (int part = 1; part < sums.parts; ++part) {
      Scratch::Frame inner(scratch);
      const Rows rows = make_rows(pass, saved, part);
      const TensorView own_draw = scratch.allocate(draw.dtype, rows.raw.shape);
      router_weights(rows, own_draw);
      inputs(rows, own_draw);
    }
    zero_others(pass, dx);
    exchange_.close(pass, saved, all, own(dx));
    exchange_.close(pass, saved, all_weights, dweights.reshape({dweights.elements(), 1}));
    router_backward(pass, saved, dweights, dlogits);
  }
  {
    Scratch::Frame frame(scratch);
    const TensorView wide = scratch.allocate(logits.dtype, own(dx).shape);
    ops::run(pass.ops,
             ops::LinearBackwardInput{.dy = dlogits, .w = pass.params.get(router_.value), .dx = wide});
    ops::run(pass.ops, ops::AddTo{wide, own(dx)});
  }
  add_others(pass, dx);
  if (bias_.trained()) add_excess(pass, saved.get(pass, experts_));
  if (shared_) shared_backward(pass, saved, which, dy, dx);
  if (which != Which::kBoth) return;
  if (parts == 1)
    up_.backward_weight(pass, first.gathered, draw, first.arrivals.sorted);
  else
    up_.end_weight_gradient(pass);
  router_weight_gradient(pass, own(input), dlogits);
}

void Moe::shared_backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView dshared = pass.ops.scratch.allocate(dx.dtype, dx.shape);
  TensorView gradient = dy;
  if (which == Which::kInput) {
    gradient = saved.put_stash(pass, which, shared_->output_gradient());
    ops::run(pass.ops, ops::Cast{.x = dy, .y = gradient});
  }
  shared_->backward(pass, saved, which, gradient, dshared);
  ops::run(pass.ops, ops::AddTo{dshared, dx});
}

void Moe::backward_weight(Pass& pass, Saved& saved) const {
  exchange_.begin_backward();
  const TensorView dy = own(saved.get_stash(output_gradient_)), dlogits = saved.get_stash(logits_gradient_);
  const Rows first{.arrivals = exchange_.arrivals(pass, saved, 0, false),
                   .gathered = saved.get(pass, gathered_),
                   .raw = {},
                   .scaled = saved.get(pass, scaled_)};
  const TensorView draw = saved.get_stash(raw_gradient_);
  Scratch& scratch = pass.ops.scratch;
  {
    Scratch::Frame frame(scratch);
    const Sums sums = begin_sums(pass, saved, false, true);
    {
      Scratch::Frame inner(scratch);
      const TensorView drows = scratch.allocate(dy.dtype, {first.arrivals.rows(), options_.hidden});
      exchange_.send(pass, saved, first.arrivals, dy, drows);  // again, rather than kept
      down_weight_backward(pass, saved, first, sums, drows);
      up_weight_backward(pass, saved, first, sums, draw);
    }
    for (int part = 1; part < sums.parts; ++part) {
      Scratch::Frame inner(scratch);
      const Rows rows = make_rows(pass, saved, part);
      const RowWeights& weights = rows.arrivals.weights;
      const TensorView own_draw = scratch.allocate(draw.dtype, rows.raw.shape),
                       unused = scratch.allocate(weights.weights.dtype, weights.weights.shape);
      raw_backward(pass, saved, rows, sums, dy, own_draw, unused);
      up_weight_backward(pass, saved, rows, sums, own_draw);
    }
    if (sums.parts == 1)
      up_.backward_weight(pass, first.gathered, draw, first.arrivals.sorted);
    else
      up_.end_weight_gradient(pass);
  }
  router_weight_gradient(pass, own(saved.get(pass, input_)), dlogits);
  if (shared_) shared_->backward_weight(pass, saved);
}

}  // namespace stoa::nn
