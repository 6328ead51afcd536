#include "nn/gated_sublayer.h"

#include "ops/elementwise.h"
#include "ops/moe.h"

namespace stoa::nn {
namespace {

// A router of one expert: its weight is the sigmoid of the logit.
constexpr ops::RouterOptions kGate{.score = ops::RouterScore::kSigmoid, .normalize = false};

TensorView in_type(Pass& pass, TensorView x, DType type) {
  if (x.dtype == type) return x;
  const TensorView wide = pass.ops.scratch.allocate(type, x.shape);
  ops::run(pass.ops, ops::Cast{.x = x, .y = wide});
  return wide;
}

// In scratch: the choice of that router.
TensorView only_expert(Pass& pass, const Shape& gates) {
  const TensorView experts = pass.ops.scratch.allocate(DType::kI32, gates);
  ops::run(pass.ops, ops::FillZero{experts});
  return experts;
}

// In scratch: row i of the branch belongs to gate i.
TensorView row_order(Pass& pass, const Shape& gates) {
  const TensorView order = pass.ops.scratch.allocate(DType::kI32, gates);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView experts = only_expert(pass, gates);
  ops::run(pass.ops, ops::GroupByExpert{.expert_count = 1,
                                        .experts = experts,
                                        .order = order,
                                        .place = pass.ops.scratch.allocate(DType::kI32, gates),
                                        .sorted_experts = pass.ops.scratch.allocate(DType::kI32, gates)});
  return order;
}

}  // namespace

GatedSublayer::GatedSublayer(const GatedSublayerOptions& options, std::unique_ptr<Sublayer> layer)
    : options_(options), layer_(std::move(layer)) {}

void GatedSublayer::declare(ParamList& params, ActivationTable& table, std::int64_t tokens,
                            Precision precision, int input) {
  const auto& o = options_;
  ParamSpec gate;
  gate.name = o.name + ".weight";
  gate.shard = ShardSpec::whole(gate.name, {1, o.hidden});
  gate.shard.pieces[0].shared = o.place.split();
  gate.shard.pieces[0].first_copy = o.place.rank == 0;
  // Each rank sees its rows of the stream.
  if (o.place.splits_stream()) gate.grad_partial_over.push_back(parallel::Group::kTensor);
  gate.init = {InitKind::kNormal, o.deviation};
  gate.full_precision = true;
  gate_ = params.add(std::move(gate));
  input_ = input;
  layer_->declare(params, table, tokens, precision, input);
  const std::int64_t rows = o.place.stream_rows(tokens);
  const auto activation = [&](const char* name, DType type, std::int64_t columns, Producer producer,
                              void (GatedSublayer::*make)(Pass&, Saved&) const) {
    return table.declare({.tensor = {o.name + "." + name, type, {rows, columns}},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); }});
  };
  logits_ = activation("logits", precision.vectors(), 1, Producer::kSmall, &GatedSublayer::make_logits);
  gates_ = activation("gates", precision.vectors(), 1, Producer::kSmall, &GatedSublayer::make_gates);
  branch_ = activation("branch", precision.compute, o.hidden, Producer::kLinear, &GatedSublayer::make_branch);
  logits_gradient_ = table.declare_stash({o.name + ".logits gradient", precision.vectors(), {rows, 1}});
}

void GatedSublayer::make_logits(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), logits = saved.put(pass, logits_);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(
      pass.ops,
      ops::LinearForward{
          .x = in_type(pass, x, logits.dtype), .w = pass.params.get(gate_.value), .bias = {}, .y = logits});
}

void GatedSublayer::make_gates(Pass& pass, Saved& saved) const {
  const TensorView logits = saved.get(pass, logits_), gates = saved.put(pass, gates_);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::RouterForward{.options = kGate,
                                        .logits = logits,
                                        .bias = {},
                                        .experts = pass.ops.scratch.allocate(DType::kI32, gates.shape),
                                        .weights = gates});
}

void GatedSublayer::make_branch(Pass& pass, Saved& saved) const {
  saved.get(pass, layer_->last());
  const TensorView branch = saved.put(pass, branch_);
  Scratch::Frame frame(pass.ops.scratch);
  layer_->forward(pass, saved, branch);
}

void GatedSublayer::forward(Pass& pass, Saved& saved, TensorView y) const {
  const TensorView branch = saved.get(pass, branch_), gates = saved.get(pass, gates_);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops,
           ops::ScaleRows{.x = branch, .order = row_order(pass, gates.shape), .weights = gates, .y = y});
}

void GatedSublayer::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const TensorView branch = saved.get(pass, branch_), gates = saved.get(pass, gates_),
                   logits = saved.get(pass, logits_), input = saved.get(pass, input_);
  const TensorView dlogits = saved.put_stash(pass, which, logits_gradient_);
  Scratch& scratch = pass.ops.scratch;
  // With kInput dy is the stash entry of the inner layer, which its weights' gradients read.
  const TensorView dbranch = which == Which::kBoth ? scratch.allocate(dy.dtype, dy.shape) : dy;
  {
    Scratch::Frame frame(scratch);
    const TensorView dgates = scratch.allocate(gates.dtype, gates.shape);
    ops::run(pass.ops, ops::ScaleRowsBackward{.x = branch,
                                              .dy = dy,
                                              .order = row_order(pass, gates.shape),
                                              .weights = gates,
                                              .dx = dbranch,
                                              .dweights = dgates});
    ops::run(pass.ops, ops::RouterBackward{.options = kGate,
                                           .logits = logits,
                                           .experts = only_expert(pass, gates.shape),
                                           .dweights = dgates,
                                           .sequences = {},
                                           .counts = {},
                                           .state = {},
                                           .dlogits = dlogits});
  }
  layer_->backward(pass, saved, which, dbranch, dx);
  {
    Scratch::Frame frame(scratch);
    const TensorView wide = scratch.allocate(dlogits.dtype, dx.shape);
    ops::run(pass.ops,
             ops::LinearBackwardInput{.dy = dlogits, .w = pass.params.get(gate_.value), .dx = wide});
    ops::run(pass.ops, ops::AddTo{wide, dx});
  }
  if (which == Which::kBoth) gate_weight_gradient(pass, input, dlogits);
}

void GatedSublayer::gate_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const {
  if (!gate_.trained()) return;
  const GradTarget target = pass.grads->target(gate_.grad);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::LinearBackwardWeight{.x = in_type(pass, x, dlogits.dtype),
                                               .dy = dlogits,
                                               .dw = target.tensor,
                                               .dbias = {},
                                               .accumulate = target.accumulate});
  pass.grads->notify(gate_.grad);
}

void GatedSublayer::backward_weight(Pass& pass, Saved& saved) const {
  gate_weight_gradient(pass, saved.get(pass, input_), saved.get_stash(logits_gradient_));
  layer_->backward_weight(pass, saved);
}

}  // namespace stoa::nn
