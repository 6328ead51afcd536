#include "nn/adapted_sublayer.h"

#include "base/error.h"
#include "ops/elementwise.h"

namespace stoa::nn {

AdaptedSublayer::AdaptedSublayer(std::unique_ptr<Sublayer> layer, const BottleneckOptions& options,
                                 const Norm* norm)
    : layer_(std::move(layer)), bottleneck_(options), norm_(norm) {}

void AdaptedSublayer::declare(ParamList& params, ActivationTable& table, std::int64_t tokens,
                              Precision precision, int input) {
  const BottleneckOptions& o = bottleneck_.options();
  precision_ = precision;
  layer_->declare(params, table, tokens, precision, input);
  bottleneck_.declare(params);
  require<InternalError>(reads(BottleneckReads::kBranch) || stream_ >= 0, "'{}' does not know its stream",
                         o.name);
  const auto activation = [&](const char* name, Producer producer,
                              void (AdaptedSublayer::*make)(Pass&, Saved&) const) {
    return table.declare(
        {.tensor = {o.name + name, precision.compute, {o.place.stream_rows(tokens), o.hidden}},
         .producer = producer,
         .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); }});
  };
  if (!reads(BottleneckReads::kStream))
    output_ = activation(".branch", Producer::kLinear, &AdaptedSublayer::make_output);
  read_ = reads(BottleneckReads::kBranch)
              ? output_
              : activation(".input", Producer::kCast, &AdaptedSublayer::make_read);
}

void AdaptedSublayer::make_output(Pass& pass, Saved& saved) const {
  saved.get(pass, layer_->last());
  const TensorView y = saved.put(pass, output_);
  Scratch::Frame frame(pass.ops.scratch);
  layer_->forward(pass, saved, y);
}

TensorView AdaptedSublayer::sum(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, stream_), h = saved.get(pass, output_);
  const TensorView out = pass.ops.scratch.allocate(x.dtype, x.shape);
  ops::run(pass.ops, ops::ResidualAdd{.x = x, .branch = h, .dropout = {}, .y = out});
  return out;
}

void AdaptedSublayer::make_read(Pass& pass, Saved& saved) const {
  const TensorView x = saved.get(pass, stream_);
  // forward() needs it in the same frame.
  saved.get(pass, reads(BottleneckReads::kStream) ? layer_->last() : output_);
  const TensorView r = saved.put(pass, read_);
  Scratch::Frame frame(pass.ops.scratch);
  if (norm_ && reads(BottleneckReads::kSum))
    norm_->forward(pass, sum(pass, saved), r, {});
  else
    ops::run(pass.ops, ops::Cast{.x = reads(BottleneckReads::kSum) ? sum(pass, saved) : x, .y = r});
}

void AdaptedSublayer::forward(Pass& pass, Saved& saved, TensorView y) const {
  const TensorView r = saved.get(pass, read_);
  if (reads(BottleneckReads::kStream))
    layer_->forward(pass, saved, y);
  else
    ops::run(pass.ops, ops::Cast{.x = saved.get(pass, output_), .y = y});
  bottleneck_.forward(pass, r, y);
}

TensorView AdaptedSublayer::read_gradient(Pass& pass, Saved& saved, bool weights, TensorView dy) const {
  const TensorView r = saved.get(pass, read_), out = pass.ops.scratch.allocate(r.dtype, r.shape);
  bottleneck_.backward(pass, weights, r, dy, out);
  if (!norm_ || !reads(BottleneckReads::kSum)) return out;
  const TensorView dsum = pass.ops.scratch.allocate(precision_.residual, r.shape);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView sum = this->sum(pass, saved),
                   stats = pass.ops.scratch.allocate(precision_.vectors(), {r.rows(), 2}),
                   normed = pass.ops.scratch.allocate(r.dtype, r.shape);
  norm_->forward(pass, sum, normed, stats);
  norm_->backward(
      pass, {.x = sum, .stats = stats, .dy = out, .dresidual = {}, .dx = dsum, .dropout = {}, .dbranch = {}});
  return dsum;
}

TensorView AdaptedSublayer::stream_gradient(Pass& pass, Saved& saved, TensorView dy) const {
  if (reads(BottleneckReads::kBranch)) return {};
  saved.get(pass, read_);
  const TensorView out = pass.ops.scratch.allocate(precision_.residual, dy.shape);
  Scratch::Frame frame(pass.ops.scratch);
  ops::run(pass.ops, ops::Cast{.x = read_gradient(pass, saved, false, dy), .y = out});
  return out;
}

// The bottleneck's weights have their gradients with those of the input, as norms do: there is little to
// compute later.
void AdaptedSublayer::backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const {
  saved.get(pass, read_);
  TensorView dh = dy;  // the stash entry, which the weights' gradients read
  const bool reads_output = !reads(BottleneckReads::kStream);
  if (reads_output && which == Which::kBoth) {  // perhaps the gradient of the stream, which others read
    dh = pass.ops.scratch.allocate(dy.dtype, dy.shape);
    ops::run(pass.ops, ops::Cast{.x = dy, .y = dh});
  }
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView dr = read_gradient(pass, saved, true, dy);
    if (reads_output) ops::run(pass.ops, ops::AddTo{.x = dr, .y = dh});
  }
  layer_->backward(pass, saved, which, dh, dx);
}

std::unique_ptr<Sublayer> adapted(std::unique_ptr<Sublayer> layer,
                                  const std::optional<BottleneckOptions>& options, const Norm* norm) {
  if (!options) return layer;
  return std::make_unique<AdaptedSublayer>(std::move(layer), *options, norm);
}

}  // namespace stoa::nn
