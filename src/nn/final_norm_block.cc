#include "nn/final_norm_block.h"

namespace stoa::nn {

FinalNormBlock::FinalNormBlock(const FinalNormOptions& o, std::unique_ptr<Block> block)
    : options_(o),
      block_(std::move(block)),
      norm_(o.name, o.norm, o.hidden, o.place, o.place.splits_stream()) {}

void FinalNormBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const auto& o = options_;
  const std::int64_t rows = o.place.stream_rows(tokens);
  block_->declare(params, table, tokens);
  norm_.declare(params);
  stream_ = table.declare({.tensor = {o.name + ".input", o.precision.residual, {rows, o.hidden}},
                           .producer = Producer::kLinear,
                           .make = [this](Pass& pass, Saved& saved) { make_stream(pass, saved); }});
  stats_ = table.declare({.tensor = {o.name + ".statistics", o.precision.vectors(), {rows, 2}},
                          .producer = Producer::kNorm,
                          .make = [this](Pass& pass, Saved& saved) { make_statistics(pass, saved); }});
}

void FinalNormBlock::make_stream(Pass& pass, Saved& saved) {
  const TensorView stream = saved.put(pass, stream_);
  block_->forward(pass, saved, stream);
}

void FinalNormBlock::make_statistics(Pass& pass, Saved& saved) const {
  const TensorView stream = saved.get(pass, stream_), stats = saved.put(pass, stats_);
  Scratch::Frame frame(pass.ops.scratch);
  norm_.forward(pass, stream, pass.ops.scratch.allocate(stream.dtype, stream.shape), stats);
}

void FinalNormBlock::forward(Pass& pass, Saved& saved, TensorView out) {
  const TensorView stream = saved.get(pass, stream_);
  norm_.forward(pass, stream, out, pass.training ? saved.put(pass, stats_) : TensorView());
  pass.show(options_.name, ".output", out);
}

void FinalNormBlock::backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) {
  if (which == Which::kWeight) return block_->backward(pass, saved, which, dout, din);
  // Recomputation comes before the gradients' temporaries.
  const TensorView stream = saved.get(pass, stream_), stats = saved.get(pass, stats_);
  const TensorView dstream = pass.ops.scratch.allocate(dout.dtype, dout.shape);
  pass.show_gradient(options_.name, ".output", dout);
  norm_.backward(pass, {.x = stream,
                        .stats = stats,
                        .dy = dout,
                        .dresidual = {},
                        .dx = dstream,
                        .dropout = {},
                        .dbranch = {}});
  block_->backward(pass, saved, which, dstream, din);
}

}  // namespace stoa::nn
