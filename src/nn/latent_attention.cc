#include "nn/latent_attention.h"

#include <array>
#include <cmath>

#include "nn/attention_parts.h"
#include "nn/context_attention.h"
#include "nn/kv_append.h"
#include "nn/tensor_columns.h"
#include "ops/latent_heads.h"

namespace stoa::nn {
namespace {

// Of DeepSeek's latent norms, whatever the epsilon of the model's others.
constexpr NormOptions kLatentNorm{ops::NormKind::kRmsNorm, 1e-6};

Linear down_linear(const SelfAttentionOptions& o) {
  const LatentSizes& l = *o.latent;
  std::vector<LinearPiece> pieces;
  if (l.query_rank > 0) pieces.push_back({o.name + ".q_a", l.query_rank, {}});
  pieces.push_back({o.name + ".kv_a", l.rank + l.rotated, {}});
  return Linear({.name = o.name + ".down",
                 .inputs = o.hidden,
                 .pieces = std::move(pieces),
                 .bias = o.bias,
                 .deviation = o.deviation,
                 .split = LinearSplit::kWhole,
                 .place = o.place,
                 .columns = {}});
}

// From `inputs` to `size` columns of every head.
Linear heads_linear(const SelfAttentionOptions& o, const char* name, std::int64_t inputs, std::int64_t size,
                    const parallel::Part& heads) {
  return Linear({.name = o.name + name,
                 .inputs = inputs,
                 .pieces = {{o.name + name, o.heads * size, head_columns(heads, size)}},
                 .bias = false,
                 .deviation = o.deviation,
                 .split = LinearSplit::kOutputs,
                 .place = o.place,
                 .columns = {}});
}

Norm latent_norm(const SelfAttentionOptions& o, const char* name, std::int64_t rank) {
  return Norm(o.name + name, kLatentNorm, rank, o.place, o.place.splits_stream());
}

}  // namespace

LatentAttention::LatentAttention(const SelfAttentionOptions& o)
    : options_(o),
      latent_(*o.latent),
      heads_(parallel::head_part(o.heads, o.heads, o.place).heads),
      down_(down_linear(o)),
      kv_latent_{latent_.query_rank, latent_.rank, latent_norm(o, ".kv_a_norm", latent_.rank)},
      queries_{latent_.query_rank > 0 ? heads_linear(o, ".q_b", latent_.query_rank, o.head_size, heads_)
                                      : heads_linear(o, ".q", o.hidden, o.head_size, heads_)},
      keys_values_{heads_linear(o, ".kv_b", latent_.rank, kv_size(), heads_)},
      output_(head_output({.name = o.name,
                           .heads = o.heads,
                           .size = latent_.value,
                           .own = heads_,
                           .hidden = o.hidden,
                           .bias = o.output_bias,
                           .deviation = o.output_deviation,
                           .place = o.place})) {
  if (latent_.query_rank > 0)
    query_latent_.emplace(Latent{0, latent_.query_rank, latent_norm(o, ".q_a_norm", latent_.query_rank)});
}

void LatentAttention::declare(ParamList& params, ActivationTable& table, std::int64_t tokens,
                              Precision precision, int input) {
  const auto& o = options_;
  input_ = input;
  const std::int64_t rows = o.place.stream_rows(tokens);
  const DType type = precision.compute;
  down_.declare(params);
  projected_ = table.declare({.tensor = {o.name + ".projected", type, {rows, down_.outputs()}},
                              .producer = Producer::kLinear,
                              .make = [this](Pass& pass, Saved& saved) { make_projected(pass, saved); }});
  key_ = table.declare({.tensor = {o.name + ".key", type, {tokens, latent_.rotated}},
                        .producer = Producer::kSmall,
                        .make = [this](Pass& pass, Saved& saved) { make_key(pass, saved); }});
  if (query_latent_) declare(*query_latent_, ".q_a", params, table, rows, precision);
  declare(kv_latent_, ".kv_a", params, table, rows, precision);
  declare(queries_, ".q", &LatentAttention::make_queries, params, table, tokens, precision);
  declare(keys_values_, ".kv", &LatentAttention::make_keys_values, params, table, tokens, precision);
  output_.declare(params);
  const auto make_context = [this](Pass& pass, Saved& saved) { this->make_context(pass, saved); };
  context_ = table.declare({.tensor = {o.name + ".context", type, {tokens, output_.inputs()}},
                            .producer = Producer::kAttention,
                            .make = make_context,
                            .weight_input = true});
  lse_ = table.declare({.tensor = {o.name + ".lse", precision.vectors(), {tokens, heads_.count}},
                        .producer = Producer::kSmall,
                        .make = make_context});
  output_gradient_ = table.declare_stash({o.name + ".output gradient", type, {rows, o.hidden}});
  projected_gradient_ = table.declare_stash({o.name + ".projected gradient", type, {rows, down_.outputs()}});
}

void LatentAttention::declare(Latent& latent, const char* name, ParamList& params, ActivationTable& table,
                              std::int64_t rows, Precision precision) {
  const auto make = [this, &latent](Pass& pass, Saved& saved) { make_normed(latent, pass, saved); };
  latent.norm.declare(params);
  latent.normed =
      table.declare({.tensor = {options_.name + name + ".normed", precision.compute, {rows, latent.rank}},
                     .producer = Producer::kNorm,
                     .make = make,
                     .weight_input = true});
  latent.stats =
      table.declare({.tensor = {options_.name + name + ".statistics", precision.vectors(), {rows, 2}},
                     .producer = Producer::kNorm,
                     .make = make});
}

void LatentAttention::declare(Heads& heads, const char* name,
                              void (LatentAttention::*make)(Pass&, Saved&) const, ParamList& params,
                              ActivationTable& table, std::int64_t tokens, Precision precision) {
  const TensorSpec spec{options_.name + name, precision.compute, {tokens, heads.linear.outputs()}};
  heads.linear.declare(params);
  // From a latent it is a small product of a wide tensor: cheap for what it saves, so that selective
  // recomputation makes it again, as DeepSeek-V3 did (2412.19437 section 3.2.3).
  const bool from_latent = &heads == &keys_values_ || query_latent_;
  heads.made =
      table.declare({.tensor = spec,
                     .producer = from_latent ? Producer::kActivation : Producer::kLinear,
                     .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); }});
  heads.gradient = table.declare_stash({spec.name + " gradient", spec.dtype, spec.shape});
}

void LatentAttention::rotate(Pass& pass, TensorView heads, bool inverse) const {
  ops::run(pass.ops, ops::Rotary{.x = heads,
                                 .positions = pass.batch.positions,
                                 .table = pass.constants[static_cast<std::size_t>(options_.rope_table)],
                                 .inverse = inverse});
}

TensorView LatentAttention::key_columns(TensorView projected) const {
  return projected.columns(kv_latent_.begin + latent_.rank, latent_.rotated);
}

void LatentAttention::make_projected(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_);
  down_.forward(pass, x, saved.put(pass, projected_));
}

void LatentAttention::make_key(Pass& pass, Saved& saved) const {
  const TensorView columns = key_columns(saved.get(pass, projected_)), key = saved.put(pass, key_);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView rows = pass.ops.scratch.allocate(key.dtype, columns.shape);
  copy_rows(pass, columns, rows);
  copy_rows(pass, gather_rows(pass, options_.place, rows).wait(), key);
  rotate(pass, key.reshape({key.rows(), 1, latent_.rotated}), false);
}

void LatentAttention::make_normed(const Latent& latent, Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, projected_).columns(latent.begin, latent.rank),
                   y = saved.put(pass, latent.normed);
  latent.norm.forward(pass, x, y, pass.training ? saved.put(pass, latent.stats) : TensorView());
}

void LatentAttention::make_queries(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, query_input()), q = saved.put(pass, queries_.made);
  queries_.linear.forward(pass, x, q);
  rotate(pass, by_head(q, options_.head_size), false);
}

void LatentAttention::make_keys_values(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, kv_latent_.normed);
  keys_values_.linear.forward(pass, x, saved.put(pass, keys_values_.made));
}

LatentAttention::Core LatentAttention::core_inputs(Pass& pass, Saved& saved) const {
  const TensorView q = by_head(saved.get(pass, queries_.made), options_.head_size),
                   kv = saved.get(pass, keys_values_.made), key = saved.get(pass, key_);
  Scratch& scratch = pass.ops.scratch;
  const Core out{q, scratch.allocate(q.dtype, q.shape), scratch.allocate(q.dtype, q.shape)};
  ops::run(pass.ops, ops::LatentHeads{.kv = by_head(kv, kv_size()), .rope = key, .k = out.k, .v = out.v});
  return out;
}

ops::AttentionOptions LatentAttention::core(const Pass& pass) const {
  const auto& o = options_;
  ops::AttentionOptions out = core_options(pass, o.name, o.heads, heads_, o.dropout);
  out.scale = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(o.head_size)));
  return out;
}

TensorView LatentAttention::values_of(TensorView heads) const {
  return heads.reshape({heads.rows() * heads_.count, options_.head_size}).columns(0, latent_.value);
}

TensorView LatentAttention::value_rows(TensorView context) const {
  return context.reshape({context.rows() * heads_.count, latent_.value});
}

void LatentAttention::make_context(Pass& pass, Saved& saved) const {
  const auto& o = options_;
  const auto read = pass.cache ? std::array{queries_.made, kv_latent_.normed, key_}
                               : std::array{queries_.made, keys_values_.made, key_};
  for (const int activation : read) saved.get(pass, activation);
  const TensorView context = saved.put(pass, context_);
  if (pass.cache) return attend_latents(pass, saved, context);
  const TensorView lse = pass.training ? saved.put(pass, lse_) : TensorView();
  Scratch::Frame frame(pass.ops.scratch);
  const Core in = core_inputs(pass, saved);
  const TensorView out = pass.ops.scratch.allocate(in.q.dtype, in.q.shape);
  core_attention(pass, ops::AttentionForward{.options = core(pass),
                                             .segments = pass.batch.segments,
                                             .q = in.q,
                                             .k = in.k,
                                             .v = in.v,
                                             .o = out,
                                             .lse = lse});
  copy_rows(pass, values_of(out), value_rows(context));
  pass.show(o.name, ".context", context, {heads_.begin * latent_.value, o.heads * latent_.value});
}

void LatentAttention::attend_latents(Pass& pass, Saved& saved, TensorView context) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView q = saved.get(pass, queries_.made), key = saved.get(pass, key_),
                   latent = gather_rows(pass, options_.place, saved.get(pass, kv_latent_.normed)).wait();
  const std::int64_t tokens = q.rows(), heads = heads_.count, rank = latent_.rank,
                     width = rank + latent_.rotated;
  const TensorView entries = scratch.allocate(q.dtype, {tokens, width}),
                   wide = scratch.allocate(q.dtype, {tokens, heads * width}),
                   out = scratch.allocate(q.dtype, {tokens, heads * width});
  copy_rows(pass, latent, entries.columns(0, rank));
  copy_rows(pass, key, entries.columns(rank, latent_.rotated));
  const TensorView cache = pass.cache->layers[static_cast<std::size_t>(options_.layer)].keys;
  append(pass, entries.reshape({tokens, 1, width}), pass.cache->own, cache);
  // A head's rows of the matrix: its keys', then its values'.
  const TensorView matrix = keys_values_.linear.whole_matrix(pass);
  for (std::int64_t h = 0; h < heads; ++h)
    ops::run(pass.ops,
             ops::LinearBackwardInput{.dy = q.columns(h * options_.head_size + latent_.rotated, latent_.own),
                                      .w = matrix.slice(h * kv_size(), latent_.own),
                                      .dx = wide.columns(h * width, rank)});
  const auto rotated_rows = [&](TensorView x, std::int64_t size, std::int64_t begin) {
    return x.reshape({tokens * heads, size}).columns(begin, latent_.rotated);
  };
  copy_rows(pass, rotated_rows(q, options_.head_size, 0), rotated_rows(wide, width, rank));
  ops::run(pass.ops, ops::AttentionForward{.options = core(pass),
                                           .segments = pass.batch.segments,
                                           .q = by_head(wide, width),
                                           .k = cache,
                                           .v = cache,
                                           .o = by_head(out, width),
                                           .lse = {}});
  for (std::int64_t h = 0; h < heads; ++h)
    ops::run(pass.ops, ops::LinearForward{.x = out.columns(h * width, rank),
                                          .w = matrix.slice(h * kv_size() + latent_.own, latent_.value),
                                          .bias = {},
                                          .y = context.columns(h * latent_.value, latent_.value)});
}

void LatentAttention::forward(Pass& pass, Saved& saved, TensorView y) const {
  output_.forward(pass, saved.get(pass, context_), y);
}

void LatentAttention::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  // Recomputation comes before the gradients' temporaries.
  const TensorView input = saved.get(pass, input_), latent = saved.get(pass, kv_latent_.normed),
                   queries = saved.get(pass, query_input());
  for (const int activation : {context_, lse_, queries_.made, keys_values_.made, key_, projected_})
    saved.get(pass, activation);
  saved.get(pass, kv_latent_.stats);
  if (query_latent_) saved.get(pass, query_latent_->stats);
  const TensorView dprojected = saved.put_stash(pass, which, projected_gradient_),
                   dq = saved.put_stash(pass, which, queries_.gradient),
                   dkv = saved.put_stash(pass, which, keys_values_.gradient);
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  core_backward(pass, saved, which, dy, dq, dkv, key_columns(dprojected));
  {
    Scratch::Frame inner(scratch);
    const TensorView dlatent = scratch.allocate(latent.dtype, latent.shape);
    keys_values_.linear.backward(pass, which, latent, dkv, dlatent);
    latent_backward(kv_latent_, pass, saved, dlatent, dprojected);
  }
  const TensorView dqueries = scratch.allocate(queries.dtype, queries.shape);
  queries_.linear.backward(pass, which, queries, dq, dqueries);
  if (query_latent_) latent_backward(*query_latent_, pass, saved, dqueries, dprojected);
  down_.backward(pass, which, input, dprojected, dx);
  if (!query_latent_) ops::run(pass.ops, ops::AddTo{.x = dqueries, .y = dx});
}

void LatentAttention::core_backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dq,
                                    TensorView dkv, TensorView dkey) const {
  const TensorView context = saved.get(pass, context_), lse = saved.get(pass, lse_);
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView key_rows = scratch.allocate(dkey.dtype, dkey.shape),
                   partial = partial_rows(pass, options_.place, key_rows);
  {
    Scratch::Frame inner(scratch);
    const Core in = core_inputs(pass, saved);
    const auto allocate = [&] { return scratch.allocate(in.q.dtype, in.q.shape); };
    const TensorView out = allocate(), dout = allocate();
    {
      Scratch::Frame innermost(scratch);
      const TensorView dcontext = scratch.allocate(context.dtype, context.shape);
      output_.backward(pass, which, context, dy, dcontext);
      pass.show_gradient(options_.name, ".context", dcontext,
                         {heads_.begin * latent_.value, options_.heads * latent_.value});
      for (const auto& [from, to] : {std::pair{context, out}, std::pair{dcontext, dout}}) {
        ops::run(pass.ops, ops::FillZero{to});
        copy_rows(pass, value_rows(from), values_of(to));
      }
    }
    const TensorView dk = allocate(), dv = allocate();
    core_attention(pass, ops::AttentionBackward{.options = core(pass),
                                                .segments = pass.batch.segments,
                                                .q = in.q,
                                                .k = in.k,
                                                .v = in.v,
                                                .o = out,
                                                .lse = lse,
                                                .dout = dout,
                                                .dq = by_head(dq, options_.head_size),
                                                .dk = dk,
                                                .dv = dv});
    ops::run(pass.ops,
             ops::LatentHeadsBackward{.dk = dk, .dv = dv, .dkv = by_head(dkv, kv_size()), .drope = partial});
  }
  rotate(pass, by_head(dq, options_.head_size), true);
  rotate(pass, partial.reshape({partial.rows(), 1, latent_.rotated}), true);
  add_rows(pass, options_.place, partial, key_rows).wait();
  copy_rows(pass, key_rows, dkey);
}

void LatentAttention::latent_backward(const Latent& latent, Pass& pass, Saved& saved, TensorView dnormed,
                                      TensorView dprojected) const {
  latent.norm.backward(pass, {.x = saved.get(pass, projected_).columns(latent.begin, latent.rank),
                              .stats = saved.get(pass, latent.stats),
                              .dy = dnormed,
                              .dresidual = {},
                              .dx = dprojected.columns(latent.begin, latent.rank),
                              .dropout = {},
                              .dbranch = {}});
}

void LatentAttention::backward_weight(Pass& pass, Saved& saved) const {
  output_.backward_weight(pass, saved.get(pass, context_), saved.get_stash(output_gradient_));
  keys_values_.linear.backward_weight(pass, saved.get(pass, kv_latent_.normed),
                                      saved.get_stash(keys_values_.gradient));
  queries_.linear.backward_weight(pass, saved.get(pass, query_input()), saved.get_stash(queries_.gradient));
  down_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(projected_gradient_));
}

}  // namespace stoa::nn
