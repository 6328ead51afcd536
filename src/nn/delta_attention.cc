#include "nn/delta_attention.h"

#include <cmath>

#include "nn/attention_parts.h"
#include "nn/discarded_gradient.h"
#include "nn/tensor_columns.h"
#include "ops/activation.h"
#include "ops/gated_delta.h"
#include "ops/short_conv.h"

namespace stoa::nn {
namespace {

parallel::Part key_heads_of(const SelfAttentionOptions& o) {
  const parallel::Part out = parallel::part_of(o.delta->key_heads, o.place.size, o.place.rank);
  require<ConfigError>(
      out.count > 0,
      "{} tensor-parallel ranks share the {} key heads of '{}': expected at most as many ranks "
      "(linear_num_key_heads)",
      o.place.size, o.delta->key_heads, o.name);
  return out;
}

parallel::Part value_heads_of(const SelfAttentionOptions& o) {
  const parallel::Part keys = key_heads_of(o);
  const std::int64_t shared = o.delta->value_heads / o.delta->key_heads;
  return {keys.begin * shared, keys.count * shared};
}

Linear delta_input(const SelfAttentionOptions& o) {
  const DeltaSizes& s = *o.delta;
  const parallel::Part keys = key_heads_of(o), values = value_heads_of(o);
  const auto piece = [&](const char* name, std::int64_t heads, const parallel::Part& own, std::int64_t size) {
    return LinearPiece{o.name + name, heads * size, head_columns(own, size)};
  };
  return Linear(
      {.name = o.name + ".input",
       .inputs = o.hidden,
       .pieces = {piece(".q", s.key_heads, keys, s.key_size), piece(".k", s.key_heads, keys, s.key_size),
                  piece(".v", s.value_heads, values, s.value_size),
                  piece(".z", s.value_heads, values, s.value_size), piece(".b", s.value_heads, values, 1),
                  piece(".a", s.value_heads, values, 1)},
       .bias = false,
       .deviation = o.deviation,
       .split = LinearSplit::kOutputs,
       .place = o.place,
       .columns = {}});
}

// Rows [own.begin, own.begin + own.count) of `rows` of them.
ShardPiece rows_piece(std::string name, Shape global, const parallel::Part& own, std::int64_t memory_row) {
  ShardPiece out;
  out.name = std::move(name);
  out.global = global;
  out.begin = own.begin;
  out.count = own.count;
  out.memory_row = memory_row;
  out.column_count = global.rank() > 1 ? global.inner() : 0;
  return out;
}

// A number per value head.
ParamSpec per_head(const SelfAttentionOptions& o, const char* name, InitKind init) {
  const parallel::Part own = value_heads_of(o);
  ParamSpec out;
  out.name = o.name + name;
  out.shard.local = {own.count};
  out.shard.pieces.push_back(rows_piece(out.name, {o.delta->value_heads}, own, 0));
  out.init = {init, 1};
  out.decay = false;
  return out;
}

ops::Sequences texts_of(const Pass& pass) {
  const ops::AttentionSegments& s = pass.batch.segments;
  return {s.q_begin, s.count, s.longest_q};
}

}  // namespace

DeltaAttention::DeltaAttention(const SelfAttentionOptions& o)
    : options_(o),
      sizes_(*o.delta),
      keys_(key_heads_of(o)),
      values_(value_heads_of(o)),
      input_linear_(delta_input(o)),
      output_(head_output({.name = o.name,
                           .heads = o.delta->value_heads,
                           .size = o.delta->value_size,
                           .own = values_,
                           .hidden = o.hidden,
                           .deviation = o.output_deviation,
                           .place = o.place})),
      norm_(o.name + ".norm", {ops::NormKind::kRmsNorm, o.delta->epsilon}, o.delta->value_size, o.place,
            o.place.split()) {}

void DeltaAttention::declare_params(ParamList& params) {
  const auto& o = options_;
  input_linear_.declare(params);
  ParamSpec taps;
  taps.name = o.name + ".conv.weight";
  taps.shard.local = {convolved(), sizes_.taps};
  std::int64_t row = 0;
  const auto add = [&](const char* name, std::int64_t heads, const parallel::Part& own, std::int64_t size) {
    const parallel::Part rows = head_columns(own, size);
    taps.shard.pieces.push_back(
        rows_piece(o.name + ".conv." + name + ".weight", {heads * size, sizes_.taps}, rows, row));
    row += rows.count;
  };
  add("q", sizes_.key_heads, keys_, sizes_.key_size);
  add("k", sizes_.key_heads, keys_, sizes_.key_size);
  add("v", sizes_.value_heads, values_, sizes_.value_size);
  // The variance of torch's default, uniform within 1 / sqrt(taps).
  taps.init = {InitKind::kNormal, 1 / std::sqrt(3 * static_cast<double>(sizes_.taps))};
  taps.full_precision = true;
  convolution_ = params.add(std::move(taps));
  decay_rate_ = params.add(per_head(o, ".decay", InitKind::kDecayRate));
  step_bias_ = params.add(per_head(o, ".step_bias", InitKind::kStepBias));
  norm_.declare(params);
  output_.declare(params);
}

void DeltaAttention::declare(ParamList& params, ActivationTable& table, std::int64_t tokens,
                             Precision precision, int input) {
  const auto& o = options_;
  declare_params(params);
  input_ = input;
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer,
                              void (DeltaAttention::*make)(Pass&, Saved&) const, bool weight_input = false) {
    return table.declare({.tensor = {o.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  const DType type = precision.compute;
  const Shape projected{tokens, input_linear_.outputs()}, values{tokens, value_columns()};
  projected_ = activation("projected", type, projected, Producer::kLinear, &DeltaAttention::make_projected);
  mixed_ =
      activation("mixed", type, {tokens, convolved()}, Producer::kActivation, &DeltaAttention::make_mixed);
  read_ = activation("read", type, values, Producer::kAttention, &DeltaAttention::make_read);
  gated_ = activation("gated", type, values, Producer::kActivation, &DeltaAttention::make_gated, true);
  stats_ = activation("statistics", precision.vectors(), {tokens, values_.count * 2}, Producer::kNorm,
                      &DeltaAttention::make_gated);
  output_gradient_ =
      table.declare_stash({o.name + ".output gradient", type, {o.place.stream_rows(tokens), o.hidden}});
  projected_gradient_ = table.declare_stash({o.name + ".projected gradient", type, projected});
}

TensorView DeltaAttention::by_head(TensorView values) const {
  return values.reshape({values.rows(), values_.count, sizes_.value_size});
}

DeltaAttention::Heads DeltaAttention::split(TensorView mixed) const {
  const std::int64_t keys = key_columns();
  const Shape shape{mixed.rows(), keys_.count, sizes_.key_size};
  return {mixed.columns(0, keys).reshape(shape), mixed.columns(keys, keys).reshape(shape),
          by_head(mixed.columns(2 * keys, value_columns()))};
}

TensorView DeltaAttention::gate(TensorView projected) const {
  return projected.columns(convolved(), value_columns());
}
TensorView DeltaAttention::writing(TensorView projected) const {
  return projected.columns(convolved() + value_columns(), values_.count);
}
TensorView DeltaAttention::decay(TensorView projected) const {
  return projected.columns(convolved() + value_columns() + values_.count, values_.count);
}

void DeltaAttention::make_projected(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_);
  input_linear_.forward(pass, x, saved.put(pass, projected_));
}

void DeltaAttention::make_mixed(Pass& pass, Saved& saved) const {
  const TensorView projected = saved.get(pass, projected_), mixed = saved.put(pass, mixed_);
  TensorView state;
  if (pass.cache) state = pass.cache->layers[static_cast<std::size_t>(options_.layer)].convolved;
  ops::run(pass.ops, ops::ShortConvForward{.texts = texts_of(pass),
                                           .x = projected.columns(0, convolved()),
                                           .weight = pass.params.get(convolution_.value),
                                           .state = state,
                                           .y = mixed});
}

void DeltaAttention::make_read(Pass& pass, Saved& saved) const {
  const TensorView projected = saved.get(pass, projected_);
  const Heads heads = split(saved.get(pass, mixed_));
  const TensorView read = saved.put(pass, read_);
  TensorView state;
  if (pass.cache) state = pass.cache->layers[static_cast<std::size_t>(options_.layer)].state;
  ops::run(pass.ops, ops::GatedDeltaForward{.texts = texts_of(pass),
                                            .q = heads.q,
                                            .k = heads.k,
                                            .v = heads.v,
                                            .a = decay(projected),
                                            .b = writing(projected),
                                            .decay = pass.params.get(decay_rate_.value),
                                            .bias = pass.params.get(step_bias_.value),
                                            .state = state,
                                            .o = by_head(read)});
  pass.show(options_.name, ".read", read,
            {values_.begin * sizes_.value_size, sizes_.value_heads * sizes_.value_size});
}

TensorView DeltaAttention::gate_input(Pass& pass, TensorView projected, TensorView read,
                                      TensorView stats) const {
  const std::int64_t width = value_columns();
  const TensorView pair = pass.ops.scratch.allocate(read.dtype, {read.rows(), 2 * width});
  copy_rows(pass, gate(projected), pair.columns(0, width));
  norm_.forward(pass, by_head(read), by_head(pair.columns(width, width)), stats);
  return pair;
}

void DeltaAttention::make_gated(Pass& pass, Saved& saved) const {
  const TensorView projected = saved.get(pass, projected_), read = saved.get(pass, read_),
                   gated = saved.put(pass, gated_);
  TensorView stats;
  if (pass.training) stats = saved.put(pass, stats_).reshape({read.rows() * values_.count, 2});
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::ActivationForward{.kind = ops::ActivationKind::kSilu,
                                            .gated = true,
                                            .x = gate_input(pass, projected, read, stats),
                                            .y = gated});
}

void DeltaAttention::forward(Pass& pass, Saved& saved, TensorView y) const {
  output_.forward(pass, saved.get(pass, gated_), y);
}

void DeltaAttention::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const TensorView gated = saved.get(pass, gated_), stats = saved.get(pass, stats_),
                   projected = saved.get(pass, projected_), read = saved.get(pass, read_),
                   input = saved.get(pass, input_);
  saved.get(pass, mixed_);
  const std::int64_t rows = read.rows(), width = value_columns();
  const TensorView dprojected = saved.put_stash(pass, which, projected_gradient_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dread = pass.ops.scratch.allocate(read.dtype, read.shape);
    {
      Scratch::Frame inner(pass.ops.scratch);
      const TensorView dgated = pass.ops.scratch.allocate(gated.dtype, gated.shape);
      output_.backward(pass, which, gated, dy, dgated);
      const TensorView pair = gate_input(pass, projected, read, {});
      ops::run(pass.ops,
               ops::ActivationBackward{
                   .kind = ops::ActivationKind::kSilu, .gated = true, .x = pair, .dy = dgated, .dx = pair});
      copy_rows(pass, pair.columns(0, width), gate(dprojected));
      norm_.backward(pass, {.x = by_head(read),
                            .stats = stats.reshape({rows * values_.count, 2}),
                            .dy = by_head(pair.columns(width, width)),
                            .dresidual = {},
                            .dx = by_head(dread),
                            .dropout = {},
                            .dbranch = {}});
    }
    pass.show_gradient(options_.name, ".read", dread,
                       {values_.begin * sizes_.value_size, sizes_.value_heads * sizes_.value_size});
    core_backward(pass, saved, dread, dprojected);
  }
  input_linear_.backward(pass, which, input, dprojected, dx);
}

void DeltaAttention::core_backward(Pass& pass, Saved& saved, TensorView dread, TensorView dprojected) const {
  const TensorView projected = saved.get(pass, projected_), mixed = saved.get(pass, mixed_),
                   dmixed = pass.ops.scratch.allocate(mixed.dtype, mixed.shape);
  const Heads in = split(mixed), gradients = split(dmixed);
  const bool accumulate = step_bias_.trained() && pass.grads->target(step_bias_.grad).accumulate;
  const GradTarget ddecay = target_or_discarded(pass, decay_rate_, accumulate),
                   dbias = target_or_discarded(pass, step_bias_, ddecay.accumulate),
                   dweight = target_or_discarded(pass, convolution_, false);
  require<InternalError>(ddecay.accumulate == dbias.accumulate, "gradients of '{}' are out of step",
                         options_.name);
  ops::run(pass.ops, ops::GatedDeltaBackward{.texts = texts_of(pass),
                                             .q = in.q,
                                             .k = in.k,
                                             .v = in.v,
                                             .a = decay(projected),
                                             .b = writing(projected),
                                             .decay = pass.params.get(decay_rate_.value),
                                             .bias = pass.params.get(step_bias_.value),
                                             .dout = by_head(dread),
                                             .dq = gradients.q,
                                             .dk = gradients.k,
                                             .dv = gradients.v,
                                             .da = decay(dprojected),
                                             .db = writing(dprojected),
                                             .ddecay = ddecay.tensor,
                                             .dbias = dbias.tensor,
                                             .accumulate = ddecay.accumulate});
  ops::run(pass.ops, ops::ShortConvBackward{.texts = texts_of(pass),
                                            .x = projected.columns(0, convolved()),
                                            .weight = pass.params.get(convolution_.value),
                                            .dy = dmixed,
                                            .dx = dprojected.columns(0, convolved()),
                                            .dweight = dweight.tensor,
                                            .accumulate = dweight.accumulate});
  for (const Param& parameter : {decay_rate_, step_bias_, convolution_}) notify_trained(pass, parameter);
}

void DeltaAttention::backward_weight(Pass& pass, Saved& saved) const {
  output_.backward_weight(pass, saved.get(pass, gated_), saved.get_stash(output_gradient_));
  input_linear_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(projected_gradient_));
}

}  // namespace stoa::nn
