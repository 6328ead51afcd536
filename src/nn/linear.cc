#include "nn/linear.h"

#include "nn/adapted_rows.h"
#include "nn/packed_weight.h"
#include "nn/tensor_columns.h"
#include "ops/elementwise.h"
#include "ops/packed_linear.h"
#include "ops/quantised_linear.h"

namespace stoa::nn {

Linear::Linear(LinearOptions options) : options_(std::move(options)) {
  auto& o = options_;
  if (!o.place.split()) o.split = LinearSplit::kWhole;
  columns_ = given_ = o.split == LinearSplit::kInputs ? o.columns : parallel::Part{0, o.inputs};
  gathers_ = o.split == LinearSplit::kInputs && o.place.exact;
  if (gathers_) {
    const std::int64_t ranks = o.place.size, outputs = o.pieces.front().outputs;
    require<InternalError>(o.pieces.size() == 1, "'{}' has {} pieces to gather", o.name, o.pieces.size());
    require<ConfigError>(given_.count * ranks == o.inputs && outputs % ranks == 0,
                         "'{}' is [{}, {}]: sums in the order of one rank need sizes that {} ranks divide",
                         o.name, outputs, o.inputs, ranks);
    o.split = LinearSplit::kOutputs;
    columns_ = {0, o.inputs};
    o.pieces.front().rows = parallel::part_of(outputs, o.place.size, o.place.rank);
  }
  for (auto& piece : o.pieces) {
    if (o.split != LinearSplit::kOutputs) piece.rows = {0, piece.outputs};
    outputs_ += piece.rows.count;
  }
}

ParamSpec Linear::spec(bool matrix) const {
  const auto& o = options_;
  const char* suffix = matrix ? ".weight" : ".bias";
  ParamSpec out;
  out.name = o.name + suffix;
  out.shard.local = matrix ? Shape{outputs_, columns_.count} : Shape{outputs_};
  // Every rank has the whole bias of a layer that is split by inputs, and its whole gradient.
  const bool copied =
      o.place.split() && (o.split == LinearSplit::kWhole || (!matrix && o.split == LinearSplit::kInputs));
  // A whole layer sees only this rank's rows of the stream.
  bool partial = o.split == LinearSplit::kWhole && o.place.splits_stream();
  std::int64_t row = 0;
  for (const auto& piece : o.pieces) {
    ShardPiece part;
    part.name = piece.name + suffix;
    part.global = matrix ? Shape{piece.outputs, o.inputs} : Shape{piece.outputs};
    part.begin = piece.rows.begin;
    part.count = piece.rows.count;
    part.memory_row = row;
    part.column_begin = matrix ? columns_.begin : 0;
    part.column_count = matrix ? columns_.count : 0;
    part.shared = copied || piece.shared;
    part.first_copy = copied ? o.place.rank == 0 : piece.first_copy;
    partial = partial || piece.shared;
    row += piece.rows.count;
    out.shard.pieces.push_back(std::move(part));
  }
  out.init = {matrix ? InitKind::kNormal : InitKind::kZeros, o.deviation};
  out.decay = matrix;
  out.packable = matrix;
  if (matrix) out.products.push_back(o.name);
  if (partial) out.grad_partial_over.push_back(parallel::Group::kTensor);
  return out;
}

void Linear::declare(ParamList& params) {
  ParamSpec matrix = spec(true);
  params.hold_as_stored(matrix);
  weight_ = params.add(std::move(matrix));
  const ParamSpec& held = params.spec(weight_.value);
  stored_ = held.stored;
  if (held.is_packed()) packed_ = packed_shape(held);
  if (options_.bias) bias_ = params.add(spec(false));
  low_rank_.declare(params, options_);
  rescaled_.declare(params, options_);
}

TensorView Linear::whole_matrix(Pass& pass) const {
  require<InternalError>(!is_packed() && stored_.count == 0, "'{}' is held as bytes", options_.name);
  const TensorView own = weight(pass);
  if (!low_rank_ && !rescaled_) return own;
  const TensorView out = pass.ops.scratch.allocate(own.dtype, own.shape);
  ops::run(pass.ops, ops::Cast{.x = own, .y = out});
  low_rank_.add_to(pass, own, out);
  rescaled_.scale(pass, out);
  return out;
}

Spread Linear::spread_of_rows(const Pass& pass, LinearSplit columns_split) const {
  // A whole layer has its rank's rows of a stream that may be split.
  const bool rows = options_.split == LinearSplit::kWhole && options_.place.splits_stream();
  return {.tensor = rows || options_.split == columns_split,
          .context = pass.parallel.degree(parallel::Axis::kContext) > 1};
}

Quantized Linear::input8(Pass& pass, TensorView x, Orientation wanted) const {
  return quantize(pass, x, {Fp8Tensor::kInput, weight_.value, spread_of_rows(pass, LinearSplit::kInputs)},
                  wanted);
}

Quantized Linear::weight8(Pass& pass, Orientation wanted) const {
  const Spread spread{.tensor = options_.split != LinearSplit::kWhole};
  return quantize(pass, weight(pass), {Fp8Tensor::kWeight, weight_.value, spread}, wanted);
}

Quantized Linear::gradient8(Pass& pass, TensorView dy, Orientation wanted) const {
  return quantize(pass, dy,
                  {Fp8Tensor::kOutputGradient, weight_.value, spread_of_rows(pass, LinearSplit::kOutputs)},
                  wanted);
}

void Linear::multiply(Pass& pass, TensorView x, TensorView bias, TensorView y,
                      const LowRank::Joined& joined) const {
  if (is_packed()) {
    ops::run(pass.ops,
             ops::PackedLinearForward{.x = x, .w = weight(pass), .shape = packed_, .bias = bias, .y = y});
    return;
  }
  if (stored_.count > 0) {
    ops::run(pass.ops,
             ops::QuantisedLinear{.x = x, .w = weight(pass), .shape = stored_, .bias = bias, .y = y});
    return;
  }
  if (!pass.fp8) {
    ops::run(pass.ops,
             ops::LinearForward{
                 .x = x, .w = weight(pass), .bias = bias, .y = y, .x2 = joined.rows, .w2 = joined.matrix});
    return;
  }
  require<ConfigError>(
      inputs() % ops::ScaledProduct::kMultiple == 0 && outputs() % ops::ScaledProduct::kMultiple == 0,
      "fp8: '{}' is [{}, {}] on a rank, expected multiples of {}: choose other sizes, fewer tensor-parallel "
      "ranks, or leave out model.fp8",
      options_.name, outputs(), inputs(), ops::ScaledProduct::kMultiple);
  const Quantized x8 = input8(pass, x, Orientation::kRows), w8 = weight8(pass, Orientation::kRows);
  ops::run(pass.ops, ops::ScaledProduct{.a = x8.rows,
                                        .b = w8.rows,
                                        .inverse_a = x8.inverse_scale,
                                        .inverse_b = w8.inverse_scale,
                                        .bias = bias,
                                        .out = y,
                                        .fast = true});
}

Quantized Linear::multiply_gradient(Pass& pass, Which which, TensorView dy, TensorView dx,
                                    const LowRank::Joined& joined) const {
  if (is_packed()) {
    ops::run(pass.ops,
             ops::PackedLinearBackwardInput{.dy = dy, .w = weight(pass), .shape = packed_, .dx = dx});
    return {};
  }
  if (!pass.fp8) {
    ops::run(pass.ops, ops::LinearBackwardInput{
                           .dy = dy, .w = weight(pass), .dx = dx, .dy2 = joined.rows, .w2 = joined.matrix});
    return {};
  }
  const bool both = which == Which::kBoth && pass.fp8->weight_gradient && weight_.trained();
  const Quantized dy8 = gradient8(pass, dy, both ? Orientation::kBoth : Orientation::kRows);
  Scratch::Frame frame(pass.ops.scratch);
  const Quantized w8 = weight8(pass, Orientation::kColumns);
  ops::run(pass.ops, ops::ScaledProduct{.a = dy8.rows,
                                        .b = w8.columns,
                                        .inverse_a = dy8.inverse_scale,
                                        .inverse_b = w8.inverse_scale,
                                        .bias = {},
                                        .out = dx});
  return dy8;
}

void Linear::forward(Pass& pass, TensorView x, TensorView y) const {
  Scratch::Frame frame(pass.ops.scratch);
  InFlight all =
      gathers_ ? InFlight(gather_columns(pass, options_.place, x), nullptr) : gather_rows(pass, x_place(), x);
  const TensorView partial =
      gathers_ ? pass.ops.scratch.allocate(y.dtype, {y.rows(), outputs_}) : partial_rows(pass, y_place(), y);
  // One rank's partial sums bring the bias.
  const bool bias = bias_ && y_place().rank == 0;
  const TensorView all_x = all.wait(), own_bias = bias ? pass.params.get(bias_.value) : TensorView();
  // `own`: the pass with the parameters of branches and factors.
  const auto write = [&](Pass& own, const LowRank& low_rank, const Rescaled& rescaled, TensorView in,
                         TensorView out) {
    const bool scaled = low_rank.has_magnitudes();
    const LowRank::Joined joined =
        low_rank && !rescaled && joins(pass) ? low_rank.joined(own, in, outputs_) : LowRank::Joined{};
    multiply(pass, rescaled.input(own, in), scaled ? TensorView() : own_bias, out, joined);
    if (scaled)
      low_rank.forward_scaled(own, in, weight(pass), own_bias, out);
    else if (low_rank && !joined.rows)
      low_rank.forward(own, in, out);
    rescaled.scale_outputs(own, out);
  };
  if (!pass.adapted.empty()) {
    std::int64_t begin = 0;  // rows before it were multiplied
    const auto multiply_until = [&](std::int64_t end) {
      if (end > begin)
        multiply(pass, all_x.slice(begin, end - begin), own_bias, partial.slice(begin, end - begin));
      begin = end;
    };
    // Branches are added to products of all rows; what changes the product has one of its own.
    for (const bool joins : {false, true}) {
      for (const AdapterRun& run : pass.adapted) {
        if (run.adapter == nullptr) continue;
        const LayerAdapters::Layer& layer = run.adapter->of(options_);
        if (!layer.any() || layer.joins() != joins) continue;
        Pass own{.ops = pass.ops, .parallel = pass.parallel, .params = *run.adapter, .batch = pass.batch};
        const TensorView in = all_x.slice(run.begin, run.count), out = partial.slice(run.begin, run.count);
        if (joins) {
          layer.low_rank.forward(own, in, out);
        } else {
          multiply_until(run.begin);
          write(own, layer.low_rank, layer.rescaled, in, out);
          begin = run.begin + run.count;
        }
      }
      if (!joins) multiply_until(all_x.rows());
    }
  } else {
    write(pass, low_rank_, rescaled_, all_x, partial);
  }
  if (gathers_) return gather_columns(pass, options_.place, partial, y);
  add_rows(pass, y_place(), partial, y).wait();
}

void Linear::backward(Pass& pass, Which which, TensorView x, TensorView dy, TensorView dx) const {
  require<InternalError>(!gathers_, "'{}' is split for inference", options_.name);
  Scratch::Frame frame(pass.ops.scratch);
  const bool weights = which == Which::kBoth && (trains() || low_rank_ || rescaled_);
  // What weights read is gathered again rather than kept: it arrives while the input's gradient is computed,
  // whose sum over the ranks is under way while the weights' gradient is.
  InFlight all_x = weights ? gather_rows(pass, x_place(), x) : InFlight(x, nullptr);
  const TensorView all_dy = gather_rows(pass, y_place(), dy).wait();
  const TensorView partial = partial_rows(pass, x_place(), dx);
  const LowRank::Gradient gradient = low_rank_.gradient(pass, weight(pass), all_dy);
  const LowRank::Joined joined =
      low_rank_ && !rescaled_ && joins(pass) ? low_rank_.joined_gradient(pass, gradient) : LowRank::Joined{};
  const Quantized dy8 =
      multiply_gradient(pass, which, rescaled_.gradient(pass, gradient.base), partial, joined);
  if (rescaled_) {
    if (weights) add_factor_gradient(pass, all_x.wait(), all_dy, partial);
    rescaled_.backward_input(pass, partial);
  }
  if (low_rank_ && !joined.rows) low_rank_.backward_input(pass, gradient, weight(pass), partial);
  InFlight sum = add_rows(pass, x_place(), partial, dx);
  if (weights) {
    const TensorView own_x = all_x.wait();
    if (trains()) add_weight_gradient(pass, own_x, all_dy, dy8);
    if (low_rank_) low_rank_.backward_weight(pass, gradient, weight(pass), own_x);
  }
  sum.wait();
}

void Linear::backward_weight(Pass& pass, TensorView x, TensorView dy) const {
  if (!trains() && !low_rank_ && !rescaled_) return;
  Scratch::Frame frame(pass.ops.scratch);
  InFlight all_x = gather_rows(pass, x_place(), x), all_dy = gather_rows(pass, y_place(), dy);
  const TensorView own_x = all_x.wait(), own_dy = all_dy.wait();
  if (trains()) add_weight_gradient(pass, own_x, own_dy, {});
  if (rescaled_) add_factor_gradient(pass, own_x, own_dy, {});
  if (!low_rank_) return;
  const TensorView w = weight(pass);
  low_rank_.backward_weight(pass, low_rank_.gradient(pass, w, own_dy), w, own_x);
}

void Linear::add_factor_gradient(Pass& pass, TensorView x, TensorView dy, TensorView dinput) const {
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  rescaled_.backward(
      pass, x, dy,
      [&] {
        if (dinput) return dinput;
        const TensorView out = scratch.allocate(x.dtype, x.shape);
        multiply_gradient(pass, Which::kInput, rescaled_.gradient(pass, dy), out);
        return out;
      },
      [&] {
        const TensorView out = scratch.allocate(dy.dtype, dy.shape);
        const bool bias = bias_ && y_place().rank == 0;
        multiply(pass, rescaled_.input(pass, x), bias ? pass.params.get(bias_.value) : TensorView(), out);
        return out;
      });
}

void Linear::multiply_columns(Pass& pass, const ops::LinearBackwardWeight& op, Quantized dy8) const {
  if (!dy8.columns) dy8 = gradient8(pass, op.dy, Orientation::kColumns);
  const Quantized x8 = input8(pass, op.x, Orientation::kColumns);
  ops::run(pass.ops, ops::ScaledProduct{.a = dy8.columns,
                                        .b = x8.columns,
                                        .inverse_a = dy8.inverse_scale,
                                        .inverse_b = x8.inverse_scale,
                                        .bias = {},
                                        .out = op.dw,
                                        .accumulate = op.accumulate});
  if (op.dbias)
    ops::run(pass.ops, ops::BiasBackward{.dy = op.dy, .dbias = op.dbias, .accumulate = op.accumulate});
}

void Linear::add_weight_gradient(Pass& pass, TensorView x, TensorView dy, Quantized dy8) const {
  if (!weight_.trained()) {
    const GradTarget bias = pass.grads->target(bias_.grad);
    ops::run(pass.ops, ops::BiasBackward{.dy = dy, .dbias = bias.tensor, .accumulate = bias.accumulate});
    pass.grads->notify(bias_.grad);
    return;
  }
  const GradTarget dweight = pass.grads->target(weight_.grad);
  ops::LinearBackwardWeight op{
      .x = x, .dy = dy, .dw = dweight.tensor, .dbias = {}, .accumulate = dweight.accumulate};
  if (bias_.trained()) {
    const GradTarget bias = pass.grads->target(bias_.grad);
    require<InternalError>(bias.accumulate == dweight.accumulate, "gradients of '{}' are out of step",
                           options_.name);
    op.dbias = bias.tensor;
  }
  if (pass.fp8 && pass.fp8->weight_gradient)
    multiply_columns(pass, op, dy8);
  else
    ops::run(pass.ops, op);
  pass.grads->notify(weight_.grad);
  if (bias_.trained()) pass.grads->notify(bias_.grad);
}

}  // namespace stoa::nn
