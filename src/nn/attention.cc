#include "nn/attention.h"

#include <cmath>

#include "nn/attention_parts.h"
#include "nn/context_attention.h"
#include "nn/kv_append.h"
#include "nn/tensor_columns.h"
#include "ops/activation.h"

namespace stoa::nn {
namespace {

Linear input_linear(const SelfAttentionOptions& o, const parallel::HeadPart& part) {
  const LinearPiece q{o.name + ".q", o.heads * o.head_size, head_columns(part.heads, o.head_size)};
  LinearPiece k{o.name + ".k", o.groups * o.head_size, head_columns(part.groups, o.head_size)};
  k.shared = part.shared;
  k.first_copy = part.first_copy;
  LinearPiece v = k;
  v.name = o.name + ".v";
  std::vector<LinearPiece> pieces{q, k, v};
  if (o.output_gate) {
    pieces.push_back(q);
    pieces.back().name = o.name + ".gate";
  }
  return Linear({.name = o.name + ".qkv",
                 .inputs = o.hidden,
                 .pieces = std::move(pieces),
                 .bias = o.bias,
                 .deviation = o.deviation,
                 .split = LinearSplit::kOutputs,
                 .place = o.place,
                 .columns = {}});
}

}  // namespace

SelfAttention::SelfAttention(const SelfAttentionOptions& o)
    : options_(o),
      part_(parallel::head_part(o.heads, o.groups, o.place)),
      heads_(part_.heads.count),
      groups_(part_.groups.count),
      qkv_linear_(input_linear(o, part_)),
      output_(head_output({.name = o.name,
                           .heads = o.heads,
                           .size = o.head_size,
                           .own = part_.heads,
                           .hidden = o.hidden,
                           .bias = o.output_bias,
                           .deviation = o.output_deviation,
                           .place = o.place})) {
  if (o.relative_bias) relative_bias_.emplace(*o.relative_bias);
  if (!o.qk_norm) return;
  q_norm_.emplace(o.name + ".q_norm", *o.qk_norm, o.heads / norms(o.heads) * o.head_size, o.place,
                  !o.qk_norm_whole);
  k_norm_.emplace(o.name + ".k_norm", *o.qk_norm, o.groups / norms(o.groups) * o.head_size, o.place,
                  !o.qk_norm_whole);
}

void SelfAttention::declare(ParamList& params, ActivationTable& table, std::int64_t tokens,
                            Precision precision, int input) {
  const auto& o = options_;
  qkv_linear_.declare(params);
  if (q_norm_) q_norm_->declare(params), k_norm_->declare(params);
  if (relative_bias_) relative_bias_->declare(params);
  if (o.sinks) declare_sinks(params);
  if (o.prefix_constants >= 0)
    prefix_.declare(params, {.layer = o.name,
                             .groups = part_.groups,
                             .all_groups = o.groups,
                             .head_size = o.head_size,
                             .shared = part_.shared,
                             .first_copy = part_.first_copy,
                             .rows = o.prefix_constants,
                             .minus_ones = o.prefix_constants + 1,
                             .vocabulary = o.vocabulary});
  output_.declare(params);
  input_ = input;
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer,
                              void (SelfAttention::*make)(Pass&, Saved&) const, bool weight_input = false) {
    return table.declare({.tensor = {o.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  const TensorSpec qkv{o.name + ".qkv", precision.compute, {tokens, qkv_linear_.outputs()}};
  qkv_ = activation("qkv", precision.compute, qkv.shape, Producer::kLinear, &SelfAttention::make_qkv);
  if (q_norm_) {
    qk_ = activation("qk", precision.compute, {tokens, (heads_ + groups_) * o.head_size}, Producer::kNorm,
                     &SelfAttention::make_qk);
    // Statistics are [T, heads * 2], row by row, so that dimension 0 of every activation is the token.
    q_stats_ = activation("q statistics", precision.vectors(), {tokens, norms(heads_) * 2}, Producer::kNorm,
                          &SelfAttention::make_qk);
    k_stats_ = activation("k statistics", precision.vectors(), {tokens, norms(groups_) * 2}, Producer::kNorm,
                          &SelfAttention::make_qk);
  }
  context_ = activation("context", precision.compute, {tokens, heads_ * o.head_size}, Producer::kAttention,
                        &SelfAttention::make_context, !o.output_gate);
  lse_ = activation("lse", precision.vectors(), {tokens, heads_}, Producer::kSmall,
                    &SelfAttention::make_context);
  if (o.output_gate)
    gated_ = activation("gated", precision.compute, {tokens, heads_ * o.head_size}, Producer::kActivation,
                        &SelfAttention::make_gated, true);
  output_gradient_ = table.declare_stash(
      {o.name + ".output gradient", precision.compute, {o.place.stream_rows(tokens), o.hidden}});
  qkv_gradient_ = table.declare_stash({o.name + ".qkv gradient", precision.compute, qkv.shape});
}

SelfAttention::Heads SelfAttention::split(TensorView qkv) const {
  const std::int64_t tokens = qkv.rows(), d = options_.head_size, q = heads_ * d, k = groups_ * d;
  return {qkv.columns(0, q).reshape({tokens, heads_, d}), qkv.columns(q, k).reshape({tokens, groups_, d}),
          qkv.columns(q + k, k).reshape({tokens, groups_, d})};
}

TensorView SelfAttention::norm_rows(TensorView x) const {
  const std::int64_t heads = norms(x.shape[1]);
  return x.reshape({x.rows(), heads, x.shape[1] / heads * x.shape[2]});
}

void SelfAttention::rotate(Pass& pass, TensorView x, bool inverse) const {
  if (options_.rope_table < 0) return;
  ops::run(pass.ops, ops::Rotary{.x = x,
                                 .positions = pass.batch.positions,
                                 .table = pass.constants[static_cast<std::size_t>(options_.rope_table)],
                                 .inverse = inverse});
}

void SelfAttention::make_qkv(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), qkv = saved.put(pass, qkv_);
  qkv_linear_.forward(pass, x, qkv);
  const Heads heads = split(qkv);
  if (prefix_) prefix_.replace_values(pass, heads.v);
  if (q_norm_) return;
  rotate(pass, heads.q, false);
  rotate(pass, heads.k, false);
  if (prefix_) prefix_.replace_keys(pass, heads.k);
}

void SelfAttention::make_qk(Pass& pass, Saved& saved) const {
  const auto& o = options_;
  const Heads raw = split(saved.get(pass, qkv_));
  const TensorView qk = saved.put(pass, qk_);
  const std::int64_t tokens = qk.rows(), q = heads_ * o.head_size;
  TensorView q_stats, k_stats;
  if (pass.training) {
    q_stats = saved.put(pass, q_stats_).reshape({tokens * norms(heads_), 2});
    k_stats = saved.put(pass, k_stats_).reshape({tokens * norms(groups_), 2});
  }
  const TensorView q_out = qk.columns(0, q).reshape({tokens, heads_, o.head_size});
  const TensorView k_out = qk.columns(q, groups_ * o.head_size).reshape({tokens, groups_, o.head_size});
  Scratch::Frame frame(pass.ops.scratch);
  norm_forward(pass, q_norm(), norm_input(pass, raw.q), q_out, q_stats);
  norm_forward(pass, k_norm(), norm_input(pass, raw.k), k_out, k_stats);
  if (!o.qk_norm_after_rope) {
    rotate(pass, q_out, false);
    rotate(pass, k_out, false);
  }
  if (prefix_) prefix_.replace_keys(pass, k_out);
}

TensorView SelfAttention::norm_input(Pass& pass, TensorView projected) const {
  if (!options_.qk_norm_after_rope || options_.rope_table < 0) return projected;
  const Shape rows{projected.rows(), projected.shape[1] * projected.shape[2]};
  const TensorView rotated = pass.ops.scratch.allocate(projected.dtype, rows);
  copy_rows(pass, projected.reshape(rows), rotated);
  const TensorView heads = rotated.reshape(projected.shape);
  rotate(pass, heads, false);
  return heads;
}

void SelfAttention::norm_forward(Pass& pass, const HeadNorm& n, TensorView x, TensorView y,
                                 TensorView stats) const {
  if (!norms_over_ranks()) return n.norm.forward(pass, norm_rows(x), norm_rows(y), stats);
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t d = options_.head_size, begin = n.heads.begin * d;
  const Shape own{x.rows(), n.heads.count * d}, whole{x.rows(), n.total * d};
  const TensorView all = whole_columns(pass, n.first_copy ? x.reshape(own) : TensorView(), begin, whole,
                                       x.dtype),
                   normed = pass.ops.scratch.allocate(y.dtype, whole);
  n.norm.forward(pass, all, normed, stats);
  copy_rows(pass, normed.columns(begin, own[1]), y.reshape(own));
}

// The first of several copies of a head gets its gradient, the others none: what reads them adds up all.
void SelfAttention::norm_backward(Pass& pass, const HeadNorm& n, TensorView x, TensorView stats,
                                  TensorView dy, TensorView dx) const {
  if (!norms_over_ranks())
    return n.norm.backward(pass, {.x = norm_rows(x),
                                  .stats = stats,
                                  .dy = norm_rows(dy),
                                  .dresidual = {},
                                  .dx = norm_rows(dx),
                                  .dropout = {},
                                  .dbranch = {}});
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t d = options_.head_size, begin = n.heads.begin * d;
  const Shape own{x.rows(), n.heads.count * d}, whole{x.rows(), n.total * d};
  const TensorView all = whole_columns(pass, n.first_copy ? x.reshape(own) : TensorView(), begin, whole,
                                       x.dtype),
                   dall = whole_columns(pass, dy.reshape(own), begin, whole, dy.dtype),
                   dwhole = pass.ops.scratch.allocate(dx.dtype, whole);
  n.norm.backward(
      pass,
      {.x = all, .stats = stats, .dy = dall, .dresidual = {}, .dx = dwhole, .dropout = {}, .dbranch = {}});
  if (!n.first_copy) ops::run(pass.ops, ops::FillZero{dwhole});
  copy_rows(pass, dwhole.columns(begin, own[1]), dx.reshape(own));
}

SelfAttention::Heads SelfAttention::core_inputs(Pass& pass, Saved& saved) const {
  Heads heads = split(saved.get(pass, qkv_));
  if (!q_norm_) return heads;
  const TensorView qk = saved.get(pass, qk_);
  const std::int64_t tokens = qk.rows(), q = heads_ * options_.head_size;
  heads.q = qk.columns(0, q).reshape({tokens, heads_, options_.head_size});
  heads.k = qk.columns(q, groups_ * options_.head_size).reshape({tokens, groups_, options_.head_size});
  return heads;
}

ops::AttentionOptions SelfAttention::core(const Pass& pass) const {
  ops::AttentionOptions out =
      core_options(pass, options_.name, options_.heads, part_.heads, options_.dropout);
  out.causal = options_.causal;
  out.window = options_.window;
  out.scale = options_.scale.value_or(1.0 / std::sqrt(static_cast<double>(options_.head_size)));
  out.softcap = options_.softcap;
  if (const TensorView table = distance_bias(pass))
    out.first_offset = options_.causal ? 1 - table.rows() : -(table.rows() / 2);
  if (relative_bias_) out.first_offset = relative_bias_->first_offset();
  return out;
}

void SelfAttention::declare_sinks(ParamList& params) {
  const SelfAttentionOptions& o = options_;
  ParamSpec spec;
  spec.name = o.name + ".sinks";
  spec.shard = ShardSpec::whole(spec.name, {o.heads});
  spec.shard.local = {heads_};
  spec.shard.pieces[0].begin = part_.heads.begin;
  spec.shard.pieces[0].count = heads_;
  spec.init = {InitKind::kNormal, o.deviation};
  spec.decay = false;
  sinks_ = params.add(std::move(spec));
}

Sinks SelfAttention::sinks(Pass& pass, bool training) const {
  if (!sinks_) return {};
  Sinks out{.values = pass.params.get(sinks_.value)};
  if (!training || !sinks_.trained()) return out;
  const GradTarget target = pass.grads->target(sinks_.grad);
  out.gradient = target.tensor;
  out.accumulate = target.accumulate;
  return out;
}

TensorView SelfAttention::distance_bias(const Pass& pass) const {
  if (options_.distance_table < 0) return {};
  return pass.constants[static_cast<std::size_t>(options_.distance_table)].columns(part_.heads.begin, heads_);
}

void SelfAttention::make_context(Pass& pass, Saved& saved) const {
  Heads in = core_inputs(pass, saved);
  const TensorView out = saved.put(pass, context_);
  TensorView lse = pass.training ? saved.put(pass, lse_) : TensorView();
  pass.show(options_.name, ".q", in.q, shown(part_.heads, options_.heads));
  pass.show(options_.name, ".k", in.k, shown(part_.groups, options_.groups));
  pass.show(options_.name, ".v", in.v, shown(part_.groups, options_.groups));
  if (pass.cache) {
    const KvLayer& layer = pass.cache->layers[static_cast<std::size_t>(options_.layer)];
    append(pass, in.k, pass.cache->own, layer.keys);
    append(pass, in.v, pass.cache->own, layer.values);
    in.k = layer.keys;
    in.v = layer.values;
  }
  Scratch::Frame frame(pass.ops.scratch);
  if (sinks_ && !lse) lse = pass.ops.scratch.allocate(accumulation_type(out.dtype), {out.rows(), heads_});
  const ops::AttentionForward attention{
      .options = core(pass),
      .segments = pass.batch.segments,
      .q = in.q,
      .k = in.k,
      .v = in.v,
      .o = out.reshape({out.rows(), heads_, options_.head_size}),
      .lse = lse,
      .relative_bias = relative_bias_ ? relative_bias_->table(pass) : distance_bias(pass)};
  core_attention(pass, attention, sinks(pass, false));
  pass.show(options_.name, ".context", out, shown(part_.heads, options_.heads));
}

TensorView SelfAttention::gate(TensorView qkv) const {
  return qkv.columns((heads_ + 2 * groups_) * options_.head_size, heads_ * options_.head_size);
}

TensorView SelfAttention::gate_input(Pass& pass, TensorView qkv, TensorView context) const {
  const std::int64_t width = context.shape[1];
  const TensorView pair = pass.ops.scratch.allocate(context.dtype, {context.rows(), 2 * width});
  copy_rows(pass, gate(qkv), pair.columns(0, width));
  copy_rows(pass, context, pair.columns(width, width));
  return pair;
}

void SelfAttention::make_gated(Pass& pass, Saved& saved) const {
  const TensorView qkv = saved.get(pass, qkv_), context = saved.get(pass, context_),
                   y = saved.put(pass, gated_);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(
      pass.ops,
      ops::ActivationForward{
          .kind = ops::ActivationKind::kSigmoid, .gated = true, .x = gate_input(pass, qkv, context), .y = y});
}

void SelfAttention::forward(Pass& pass, Saved& saved, TensorView y) const {
  output_.forward(pass, saved.get(pass, last()), y);
}

void SelfAttention::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  const auto& o = options_;
  const TensorView context = saved.get(pass, context_), lse = saved.get(pass, lse_);
  const TensorView qkv = saved.get(pass, qkv_), given = saved.get(pass, last());
  const TensorView input = saved.get(pass, input_);
  const Heads in = core_inputs(pass, saved);
  TensorView q_stats, k_stats;
  if (q_norm_) q_stats = saved.get(pass, q_stats_), k_stats = saved.get(pass, k_stats_);
  const std::int64_t tokens = qkv.rows(), q_width = heads_ * o.head_size, k_width = groups_ * o.head_size;

  const TensorView dqkv = saved.put_stash(pass, which, qkv_gradient_);
  const Heads draw = split(dqkv);
  {
    Scratch::Frame frame(pass.ops.scratch);
    Heads dcore = draw;
    if (q_norm_) {  // the norms' gradients go from one place to another
      const TensorView dqk = pass.ops.scratch.allocate(qkv.dtype, {tokens, q_width + k_width});
      dcore.q = dqk.columns(0, q_width).reshape({tokens, heads_, o.head_size});
      dcore.k = dqk.columns(q_width, k_width).reshape({tokens, groups_, o.head_size});
    }
    {
      Scratch::Frame inner(pass.ops.scratch);
      const TensorView dcontext = pass.ops.scratch.allocate(context.dtype, context.shape);
      output_.backward(pass, which, given, dy, dcontext);
      if (o.output_gate) {
        Scratch::Frame pairs(pass.ops.scratch);
        const TensorView pair = gate_input(pass, qkv, context);
        ops::run(
            pass.ops,
            ops::ActivationBackward{
                .kind = ops::ActivationKind::kSigmoid, .gated = true, .x = pair, .dy = dcontext, .dx = pair});
        copy_rows(pass, pair.columns(0, q_width), gate(dqkv));
        copy_rows(pass, pair.columns(q_width, q_width), dcontext);
      }
      pass.show_gradient(options_.name, ".context", dcontext, shown(part_.heads, o.heads));
      const Shape by_head{tokens, heads_, o.head_size};
      TensorView bias = distance_bias(pass), dbias;
      if (relative_bias_) bias = relative_bias_->table(pass), dbias = relative_bias_->zero_gradient(pass);
      const ops::AttentionBackward attention{.options = core(pass),
                                             .segments = pass.batch.segments,
                                             .q = in.q,
                                             .k = in.k,
                                             .v = in.v,
                                             .o = context.reshape(by_head),
                                             .lse = lse,
                                             .dout = dcontext.reshape(by_head),
                                             .dq = dcore.q,
                                             .dk = dcore.k,
                                             .dv = dcore.v,
                                             .relative_bias = bias,
                                             .drelative_bias = dbias};
      core_attention(pass, attention, sinks(pass, true));
      if (sinks_.trained()) pass.grads->notify(sinks_.grad);
      if (relative_bias_) relative_bias_->add_gradient(pass, dbias);
    }
    pass.show_gradient(options_.name, ".q", dcore.q, shown(part_.heads, o.heads));
    if (!part_.shared) {  // otherwise each copy has only its part of the sum
      pass.show_gradient(options_.name, ".k", dcore.k, shown(part_.groups, o.groups));
      pass.show_gradient(options_.name, ".v", dcore.v, shown(part_.groups, o.groups));
    }
    if (prefix_) prefix_.backward(pass, dcore.k, dcore.v);
    if (!o.qk_norm_after_rope) rotate(pass, dcore.q, true), rotate(pass, dcore.k, true);
    if (q_norm_) {
      const Heads raw = split(qkv);
      norm_backward(pass, q_norm(), norm_input(pass, raw.q), q_stats.reshape({tokens * norms(heads_), 2}),
                    dcore.q, draw.q);
      norm_backward(pass, k_norm(), norm_input(pass, raw.k), k_stats.reshape({tokens * norms(groups_), 2}),
                    dcore.k, draw.k);
      if (o.qk_norm_after_rope) rotate(pass, draw.q, true), rotate(pass, draw.k, true);
    }
  }
  qkv_linear_.backward(pass, which, input, dqkv, dx);
}

void SelfAttention::backward_weight(Pass& pass, Saved& saved) const {
  output_.backward_weight(pass, saved.get(pass, last()), saved.get_stash(output_gradient_));
  qkv_linear_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(qkv_gradient_));
}

}  // namespace stoa::nn
