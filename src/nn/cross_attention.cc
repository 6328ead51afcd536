#include "nn/cross_attention.h"

#include "nn/attention_parts.h"
#include "nn/kv_append.h"

namespace stoa::nn {
namespace {

Linear input_linear(const CrossAttentionOptions& o, const parallel::HeadPart& part, const char* fused,
                    std::initializer_list<const char*> names) {
  std::vector<LinearPiece> pieces;
  for (const char* name : names)
    pieces.push_back({o.name + name, o.heads * o.head_size, head_columns(part.heads, o.head_size)});
  return Linear({.name = o.name + fused,
                 .inputs = o.hidden,
                 .pieces = pieces,
                 .bias = o.bias,
                 .deviation = o.deviation,
                 .split = LinearSplit::kOutputs,
                 .place = o.place,
                 .columns = {}});
}

}  // namespace

CrossAttention::CrossAttention(const CrossAttentionOptions& o)
    : options_(o),
      part_(parallel::head_part(o.heads, o.heads, o.place)),
      heads_(part_.heads.count),
      q_linear_(input_linear(o, part_, ".q", {".q"})),
      kv_linear_(input_linear(o, part_, ".kv", {".k", ".v"})),
      output_(head_output({.name = o.name,
                           .heads = o.heads,
                           .size = o.head_size,
                           .own = part_.heads,
                           .hidden = o.hidden,
                           .bias = o.bias,
                           .deviation = o.output_deviation,
                           .place = o.place})) {}

void CrossAttention::declare(ParamList& params, ActivationTable& table, std::int64_t source_tokens,
                             std::int64_t target_tokens, Precision precision, int input, int memory) {
  const auto& o = options_;
  q_linear_.declare(params);
  kv_linear_.declare(params);
  output_.declare(params);
  input_ = input;
  memory_ = memory;
  const std::int64_t width = heads_ * o.head_size;
  const auto activation = [&](const char* name, DType type, Shape shape, Producer producer,
                              void (CrossAttention::*make)(Pass&, Saved&) const, bool weight_input = false) {
    return table.declare({.tensor = {o.name + "." + name, type, shape},
                          .producer = producer,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  const TensorSpec q{o.name + ".q gradient", precision.compute, {target_tokens, width}},
      kv{o.name + ".kv gradient", precision.compute, {source_tokens, 2 * width}};
  q_ = activation("q", precision.compute, q.shape, Producer::kLinear, &CrossAttention::make_q);
  context_ = activation("context", precision.compute, q.shape, Producer::kAttention,
                        &CrossAttention::make_context, true);
  lse_ = activation("lse", precision.vectors(), {target_tokens, heads_}, Producer::kSmall,
                    &CrossAttention::make_context);
  output_gradient_ = table.declare_stash(
      {o.name + ".output gradient", precision.compute, {o.place.stream_rows(target_tokens), o.hidden}});
  q_gradient_ = table.declare_stash(q);
  table.begin_rows(RowPart::kSource);
  kv_ = activation("kv", precision.compute, kv.shape, Producer::kLinear, &CrossAttention::make_kv);
  kv_gradient_ = table.declare_stash(kv);
  table.begin_rows(RowPart::kTarget);
}

CrossAttention::PackedKeyValues CrossAttention::split(TensorView kv) const {
  const std::int64_t width = heads_ * options_.head_size;
  return {by_head(kv.columns(0, width)), by_head(kv.columns(width, width))};
}

void CrossAttention::make_q(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, input_), q = saved.put(pass, q_);
  q_linear_.forward(pass, x, q);
}

void CrossAttention::make_kv(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, memory_), kv = saved.put(pass, kv_);
  kv_linear_.forward(pass, x, kv);
}

CrossAttention::PackedKeyValues CrossAttention::key_values(Pass& pass, Saved& saved) const {
  if (!pass.cache) return split(saved.get(pass, kv_));
  const KvLayer& layer = pass.cache->layers[static_cast<std::size_t>(options_.layer)];
  if (pass.batch.source_tokens() > 0) {
    const PackedKeyValues read = split(saved.get(pass, kv_));
    append(pass, read.k, pass.cache->source, layer.keys);
    append(pass, read.v, pass.cache->source, layer.values);
  }
  return {layer.keys, layer.values};
}

ops::AttentionOptions CrossAttention::core(const Pass& pass) const {
  ops::AttentionOptions out =
      core_options(pass, options_.name, options_.heads, part_.heads, options_.dropout);
  out.causal = false;
  out.scale = options_.scale;
  return out;
}

void CrossAttention::make_context(Pass& pass, Saved& saved) const {
  const TensorView q = saved.get(pass, q_);
  const PackedKeyValues kv = key_values(pass, saved);
  const TensorView out = saved.put(pass, context_);
  const TensorView lse = pass.training ? saved.put(pass, lse_) : TensorView();
  ops::run(pass.ops, ops::AttentionForward{.options = core(pass),
                                           .segments = pass.batch.cross_segments,
                                           .q = by_head(q),
                                           .k = kv.k,
                                           .v = kv.v,
                                           .o = by_head(out),
                                           .lse = lse});
  const Columns shown{part_.heads.begin * options_.head_size, options_.heads * options_.head_size};
  pass.show(options_.name, ".context", out, shown);
}

void CrossAttention::forward(Pass& pass, Saved& saved, TensorView y) const {
  output_.forward(pass, saved.get(pass, context_), y);
}

void CrossAttention::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx,
                              TensorView dmemory) const {
  const TensorView context = saved.get(pass, context_), lse = saved.get(pass, lse_);
  const TensorView q = saved.get(pass, q_), kv = saved.get(pass, kv_);
  const TensorView input = saved.get(pass, input_), memory = saved.get(pass, memory_);
  const TensorView dq = saved.put_stash(pass, which, q_gradient_),
                   dkv = saved.put_stash(pass, which, kv_gradient_);
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dcontext = pass.ops.scratch.allocate(context.dtype, context.shape);
    output_.backward(pass, which, context, dy, dcontext);
    const PackedKeyValues in = split(kv), gradient = split(dkv);
    ops::run(pass.ops, ops::AttentionBackward{.options = core(pass),
                                              .segments = pass.batch.cross_segments,
                                              .q = by_head(q),
                                              .k = in.k,
                                              .v = in.v,
                                              .o = by_head(context),
                                              .lse = lse,
                                              .dout = by_head(dcontext),
                                              .dq = by_head(dq),
                                              .dk = gradient.k,
                                              .dv = gradient.v});
  }
  q_linear_.backward(pass, which, input, dq, dx);
  kv_linear_.backward(pass, which, memory, dkv, dmemory);
}

void CrossAttention::backward_weight(Pass& pass, Saved& saved) const {
  output_.backward_weight(pass, saved.get(pass, context_), saved.get_stash(output_gradient_));
  q_linear_.backward_weight(pass, saved.get(pass, input_), saved.get_stash(q_gradient_));
  kv_linear_.backward_weight(pass, saved.get(pass, memory_), saved.get_stash(kv_gradient_));
}

}  // namespace stoa::nn
