// The router of a layer of experts: which tokens go where, forward and backward.
#include "nn/moe.h"
#include "ops/elementwise.h"

namespace stoa::nn {
namespace {

// The router's arithmetic is in the accumulation type: x as such, in scratch where it is of another.
TensorView widened(Pass& pass, TensorView x, DType type) {
  if (x.dtype == type) return x;
  const TensorView wide = pass.ops.scratch.allocate(type, x.shape);
  ops::run(pass.ops, ops::Cast{.x = x, .y = wide});
  return wide;
}

}  // namespace

ParamSpec Moe::router_spec(const char* suffix, Shape shape, InitKind init) const {
  const auto& o = options_;
  ParamSpec spec;
  spec.name = o.name + ".router." + suffix;
  spec.shard = ShardSpec::whole(spec.name, shape);
  spec.shard.pieces[0].shared = o.place.split();
  spec.shard.pieces[0].first_copy = o.place.rank == 0;
  if (o.place.split()) spec.grad_partial_over.push_back(parallel::Group::kTensor);
  spec.init = {init, init == InitKind::kNormal ? o.deviation : 0};
  return spec;
}

void Moe::make_logits(Pass& pass, Saved& saved) const {
  const TensorView x = own(saved.get(pass, input_)), logits = saved.put(pass, logits_);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops,
           ops::LinearForward{.x = widened(pass, x, logits.dtype),
                              .w = pass.params.get(router_.value),
                              .bias = router_bias_ ? pass.params.get(router_bias_.value) : TensorView(),
                              .y = logits});
}

void Moe::make_choice(Pass& pass, Saved& saved) const {
  const TensorView logits = saved.get(pass, logits_), experts = saved.put(pass, experts_),
                   weights = saved.put(pass, weights_);
  ops::run(pass.ops, ops::RouterForward{.options = options_.router,
                                        .logits = logits,
                                        .bias = bias_ ? pass.params.get(bias_.value) : TensorView(),
                                        .experts = experts,
                                        .weights = weights});
}

// A pass that continues texts sees no whole sequences: nothing is dropped there.
void Moe::make_kept(Pass& pass, Saved& saved) const {
  const TensorView experts = saved.get(pass, experts_), weights = saved.get(pass, weights_),
                   kept = saved.put(pass, kept_);
  const auto& batch = pass.batch;
  ops::TokenPlaces places{sequences(pass), batch.length, {}};
  if (batch.context.split())
    places.begin = {batch.context.begin(0, batch.length), batch.context.begin(1, batch.length)};
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView choices =
      pass.ops.scratch.allocate(weights.dtype, {batch.rows * batch.length, 2 * options_.chosen});
  ops::run(pass.ops, ops::FillZero{choices});
  ops::run(pass.ops,
           ops::PlaceChoices{.places = places, .experts = experts, .weights = weights, .choices = choices});
  add_over_sequences(pass, choices);
  ops::run(pass.ops, ops::LimitExperts{.places = places,
                                       .capacity = pass.cache ? experts.elements() : options_.capacity,
                                       .policy = options_.drop,
                                       .choices = choices,
                                       .kept = kept});
}

void Moe::add_over_sequences(Pass& pass, TensorView part) const {
  if (replicated()) return;
  for (const auto axis : {parallel::Axis::kTensor, parallel::Axis::kContext})
    pass.parallel.along(axis).all_reduce(part, comm::ReduceOp::kSum, pass.ops.stream)->wait();
}

ops::TokenSequences Moe::sequences(const Pass& pass) const {
  const auto& batch = pass.batch;
  const std::int64_t run = batch.context.split() ? batch.context.chunk(batch.length) : batch.length,
                     tokens = batch.tokens.rows();
  const std::int64_t first = stream_is_whole() ? own_rows(tokens).begin : options_.place.first_row(tokens);
  return {batch.rows, run, first};
}

// The balance loss counts assignments of whole sequences, wherever their tokens are.
void Moe::router_backward(Pass& pass, Saved& saved, TensorView dweights, TensorView dlogits) const {
  const auto& o = options_;
  const TensorView logits = saved.get(pass, logits_), experts = saved.get(pass, experts_);
  ops::RouterBackward op{.options = o.router,
                         .logits = logits,
                         .experts = experts,
                         .dweights = dweights,
                         .balance = o.balance,
                         .z = o.z,
                         .length = pass.batch.length,
                         .sequences = {},
                         .counts = {},
                         .state = o.balance != 0 || o.z != 0 ? pass.state : TensorView(),
                         .dlogits = dlogits};
  Scratch::Frame frame(pass.ops.scratch);
  if (o.balance != 0) {
    op.sequences = sequences(pass);
    op.counts = pass.ops.scratch.allocate(logits.dtype, {pass.batch.rows, o.experts});
    ops::run(pass.ops,
             ops::CountAssignments{.sequences = op.sequences, .experts = experts, .counts = op.counts});
    add_over_sequences(pass, op.counts);
  }
  ops::run(pass.ops, op);
}

// E times the number of assignments in excess of the experts' share, T k / E: whole numbers, so that the
// order of summation does not matter.
void Moe::add_excess(Pass& pass, TensorView experts) const {
  const std::int64_t count = options_.experts, tokens = experts.rows();
  const GradTarget target = pass.grads->target(bias_.grad);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView excess = pass.ops.scratch.allocate(target.tensor.dtype, {1, count});
  ops::run(pass.ops, ops::CountAssignments{.sequences = {1, tokens, 0},
                                           .experts = experts,
                                           .counts = excess,
                                           .scale = static_cast<double>(count),
                                           .offset = -static_cast<double>(experts.elements())});
  const TensorView row = excess.reshape({count});
  if (target.accumulate)
    ops::run(pass.ops, ops::AddTo{.x = row, .y = target.tensor});
  else
    ops::run(pass.ops, ops::Cast{.x = row, .y = target.tensor});
  pass.grads->notify(bias_.grad);
}

void Moe::router_weight_gradient(Pass& pass, TensorView x, TensorView dlogits) const {
  if (!router_.trained()) {
    if (!router_bias_.trained()) return;
    const GradTarget bias = pass.grads->target(router_bias_.grad);
    ops::run(pass.ops, ops::BiasBackward{.dy = dlogits, .dbias = bias.tensor, .accumulate = bias.accumulate});
    pass.grads->notify(router_bias_.grad);
    return;
  }
  const GradTarget target = pass.grads->target(router_.grad);
  GradTarget bias{{}, target.accumulate};
  if (router_bias_.trained()) bias = pass.grads->target(router_bias_.grad);
  require<InternalError>(bias.accumulate == target.accumulate, "gradients of '{}.router' are out of step",
                         options_.name);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::LinearBackwardWeight{.x = widened(pass, x, dlogits.dtype),
                                               .dy = dlogits,
                                               .dw = target.tensor,
                                               .dbias = bias.tensor,
                                               .accumulate = target.accumulate});
  pass.grads->notify(router_.grad);
  if (router_bias_.trained()) pass.grads->notify(router_bias_.grad);
}

}  // namespace stoa::nn
