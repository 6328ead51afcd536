#include "nn/output_layer.h"

#include <algorithm>

#include "nn/tensor_columns.h"
#include "ops/activation.h"
#include "ops/divergence.h"
#include "ops/elementwise.h"
#include "ops/fp8.h"
#include "ops/kept_divergence.h"
#include "ops/loss.h"
#include "ops/muon.h"
#include "ops/quantised_linear.h"

namespace stoa::nn {

OutputLayer::OutputLayer(const OutputLayerOptions& options)
    : options_(options),
      part_(vocabulary_part(options.vocabulary, options.padded_vocabulary, options.place)) {}

ParamSpec OutputLayer::matrix(std::string name) const {
  const auto& o = options_;
  return vocabulary_matrix(std::move(name), o.vocabulary, o.padded_vocabulary, o.hidden, o.deviation,
                           o.place);
}

void OutputLayer::declare_bias(ParamList& params) {
  if (!options_.bias) return;
  ParamSpec spec;
  spec.name = "head.bias";
  spec.shard = ShardSpec::whole(spec.name, Shape{options_.vocabulary});
  spec.shard.local = Shape{part_.rows};
  spec.shard.pieces[0].begin = part_.ids.begin;
  spec.shard.pieces[0].count = part_.ids.count;
  spec.init = {InitKind::kZeros, 0};
  spec.decay = false;
  bias_ = params.add(std::move(spec));
}

void OutputLayer::declare(ParamList& params, ParamId tied) {
  if (tied) {
    weight_ = params.tie(tied);
  } else {
    ParamSpec own = matrix("head.weight");
    params.hold_as_stored(own);
    weight_ = params.add(std::move(own));
  }
  stored_ = params.spec(weight_.value).stored;
  declare_bias(params);
  low_rank_.declare(params, linear_options());
  declare_rows(params, static_cast<bool>(tied), false);
}

LinearOptions OutputLayer::linear_options() const {
  const auto& o = options_;
  LinearOptions out;
  out.name = "head";
  out.inputs = o.hidden;
  out.pieces = {
      {.name = "head", .outputs = o.vocabulary, .rows = part_.ids, .padding = part_.rows - part_.ids.count}};
  out.split = o.place.split() ? LinearSplit::kOutputs : LinearSplit::kWhole;
  out.place = o.place;
  return out;
}

void OutputLayer::declare_rows(ParamList& params, bool tied, bool apart) {
  if (!params.adapters()) return;
  const auto& tokens = params.adapters()->token_rows();
  if (tokens.empty() || !(tied || apart || params.adapters()->head_rows())) return;
  token_rows_.emplace(tokens,
                      TokenRows::Options{options_.hidden, options_.deviation, options_.place, part_.ids});
  if (tied)
    token_rows_->tie(params);
  else
    token_rows_->declare(params, apart ? TokenRows::kEmbedding : TokenRows::kHead, apart);
}

void OutputLayer::declare_tied_copy(ParamList& params) {
  ParamSpec spec = matrix("embedding.tokens.weight");
  spec.grad_partial_over.push_back(parallel::Group::kEmbedding);
  params.hold_as_stored(spec);
  weight_ = params.add(std::move(spec));
  stored_ = params.spec(weight_.value).stored;
  declare_bias(params);
  low_rank_.declare(params, linear_options());
  declare_rows(params, false, true);
}

std::int64_t OutputLayer::largest_piece(DType type) const {
  const std::int64_t row = part_.rows * static_cast<std::int64_t>(size_of(type));
  return std::max<std::int64_t>(64, kLogitsBytes / row);
}

std::int64_t OutputLayer::piece(std::int64_t rows, DType type) const {
  const std::int64_t most = largest_piece(type);
  const std::int64_t pieces = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + pieces - 1) / pieces;
}

void OutputLayer::project_uncapped(Pass& pass, TensorView x, TensorView logits, std::int64_t first) const {
  const TensorView w = pass.params.get(weight_.value);
  if (stored_.count > 0)
    ops::run(pass.ops,
             ops::QuantisedLinear{.x = x, .w = w, .shape = stored_, .bias = bias(pass), .y = logits});
  else
    ops::run(pass.ops, ops::LinearForward{.x = x, .w = w, .bias = bias(pass), .y = logits});
  if (low_rank_) {
    // A branch has logits of its own in scratch: of few rows.
    constexpr std::int64_t kRows = 64;
    for (std::int64_t begin = 0; begin < x.rows(); begin += kRows) {
      const std::int64_t count = std::min(kRows, x.rows() - begin);
      low_rank_.forward(pass, x.slice(begin, count), logits.slice(begin, count), first + begin);
    }
  }
  if (!token_rows_) return;
  for (const TokenRows::Run& run : token_rows_->runs()) {
    const std::int64_t column = run.id - part_.ids.begin;
    const TensorView all = bias(pass);
    ops::run(pass.ops, ops::LinearForward{.x = x,
                                          .w = token_rows_->table(pass).slice(run.row, run.count),
                                          .bias = all ? all.slice(column, run.count) : all,
                                          .y = logits.columns(column, run.count)});
  }
}

TensorView OutputLayer::take_rows(Pass& pass, TensorView x, TensorView dlogits, TensorView target) const {
  if (!token_rows_ || token_rows_->runs().empty()) return {};
  Scratch& scratch = pass.ops.scratch;
  const TensorView taken = scratch.allocate(dlogits.dtype, {dlogits.rows(), token_rows_->count()});
  ops::run(pass.ops, ops::FillZero{.y = taken});
  Scratch::Frame frame(scratch);
  const TensorView zeros = scratch.allocate(dlogits.dtype, taken.shape);
  ops::run(pass.ops, ops::FillZero{.y = zeros});
  for (const TokenRows::Run& run : token_rows_->runs()) {
    const TensorView own = dlogits.columns(run.id - part_.ids.begin, run.count);
    if (target)
      ops::run(pass.ops, ops::LinearBackwardWeight{
                             .x = x, .dy = own, .dw = target.slice(run.row, run.count), .dbias = {}});
    copy_rows(pass, own, taken.columns(run.row, run.count));
    copy_rows(pass, zeros.columns(run.row, run.count), own);
  }
  return taken;
}

void OutputLayer::add_rows_input(Pass& pass, TensorView taken, TensorView dx) const {
  if (!taken) return;
  ops::run(pass.ops, ops::LinearBackwardInput{
                         .dy = taken, .w = token_rows_->table(pass), .dx = dx, .accumulate = true});
}

void OutputLayer::cap(Pass& pass, TensorView raw, TensorView logits) const {
  const double cap = options_.softcap;
  ops::run(pass.ops, ops::Combine{.a = 1 / cap, .b = 0, .x = raw, .y = raw});
  ops::run(pass.ops,
           ops::ActivationForward{.kind = ops::ActivationKind::kTanh, .gated = false, .x = raw, .y = logits});
  ops::run(pass.ops, ops::Combine{.a = cap, .b = 0, .x = logits, .y = logits});
}

void OutputLayer::project(Pass& pass, TensorView x, TensorView logits) const {
  project_uncapped(pass, x, logits);
  if (options_.softcap > 0) cap(pass, logits, logits);
}

void OutputLayer::loss(Pass& pass, TensorView logits, const Targets& targets, std::int64_t begin,
                       bool train) const {
  const auto& o = options_;
  const std::int64_t count = logits.rows();
  const TensorView labels = targets.labels.slice(begin, count), mask = targets.mask.slice(begin, count),
                   out = targets.losses.slice(begin, count);
  const TensorView state = train ? pass.state : TensorView();
  const double smoothing = train ? o.smoothing : 0, z_weight = train ? o.z_weight : 0;
  if (o.place.exact && o.place.split() && !train) {
    Scratch::Frame frame(pass.ops.scratch);
    ops::run(pass.ops, ops::CrossEntropy{.logits = logits_of_all(pass, logits),
                                         .labels = labels,
                                         .loss_mask = mask,
                                         .vocabulary = o.vocabulary,
                                         .gradient = false,
                                         .state = {},
                                         .losses = out});
    return;
  }
  if (!o.place.split()) {
    ops::run(pass.ops, ops::CrossEntropy{.logits = logits,
                                         .labels = labels,
                                         .loss_mask = mask,
                                         .vocabulary = o.vocabulary,
                                         .gradient = train,
                                         .state = state,
                                         .losses = out,
                                         .smoothing = smoothing,
                                         .z_weight = z_weight});
    return;
  }
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView parts = pass.ops.scratch.allocate(out.dtype, {o.place.size, count, 4});
  const TensorView own = parts.slice(o.place.rank, 1).reshape({count, 4});
  ops::run(pass.ops, ops::CrossEntropyPart{.logits = logits,
                                           .labels = labels,
                                           .first_column = part_.ids.begin,
                                           .columns = part_.ids.count,
                                           .part = own});
  pass.parallel.along(parallel::Axis::kTensor).all_gather(own, parts, pass.ops.stream)->wait();
  ops::run(pass.ops, ops::CrossEntropyMerge{.logits = train ? logits : TensorView(),
                                            .labels = labels,
                                            .loss_mask = mask,
                                            .parts = parts,
                                            .first_column = part_.ids.begin,
                                            .columns = part_.ids.count,
                                            .vocabulary = o.vocabulary,
                                            .state = state,
                                            .losses = out,
                                            .smoothing = smoothing,
                                            .z_weight = z_weight});
}

TensorView OutputLayer::logits_of_all(Pass& pass, TensorView logits) const {
  const auto& o = options_;
  const std::int64_t count = logits.rows();
  const TensorView whole = pass.ops.scratch.allocate(logits.dtype, {count, o.vocabulary});
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = pass.ops.scratch.allocate(logits.dtype, {o.place.size, count, part_.rows});
  pass.parallel.along(parallel::Axis::kTensor).all_gather(logits, all, pass.ops.stream)->wait();
  for (int rank = 0; rank < o.place.size; ++rank) {
    const parallel::Part ids = parallel::part_of(o.vocabulary, o.place.size, rank);
    copy_rows(pass, all.slice(rank, 1).reshape({count, part_.rows}).columns(0, ids.count),
              whole.columns(ids.begin, ids.count));
  }
  return whole;
}

template <class F>
void OutputLayer::gather(Pass& pass, TensorView of_ranks, F&& compute) const {
  const TensorView own =
      of_ranks.slice(options_.place.rank, 1).reshape({of_ranks.shape[1], of_ranks.shape[2]});
  compute(own);
  if (options_.place.split())
    pass.parallel.along(parallel::Axis::kTensor).all_gather(own, of_ranks, pass.ops.stream)->wait();
}

void OutputLayer::compare(Pass& pass, const Compared& rows, TensorView teacher) const {
  const Distillation& how = pass.batch.distillation;
  const std::int64_t count = rows.logits.rows(), ranks = options_.place.size;
  how.teacher->logits(pass, how.rows.slice(rows.begin, count), teacher);
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView parts = scratch.allocate(rows.losses.dtype, {ranks, count, 4}),
                   sums = scratch.allocate(rows.losses.dtype, {ranks, count, 2});
  gather(pass, parts, [&](TensorView own) {
    ops::run(pass.ops, ops::DivergencePart{.logits = rows.logits,
                                           .teacher = teacher,
                                           .columns = part_.ids.count,
                                           .temperature = how.loss->divergence.temperature,
                                           .part = own});
  });
  gather(pass, sums, [&](TensorView own) {
    ops::run(pass.ops, ops::DivergenceSums{.logits = rows.logits,
                                           .teacher = teacher,
                                           .parts = parts,
                                           .columns = part_.ids.count,
                                           .divergence = how.loss->divergence,
                                           .sums = own});
  });
  ops::run(pass.ops, ops::DivergenceMerge{.logits = rows.logits,
                                          .teacher = teacher,
                                          .parts = parts,
                                          .sums = sums,
                                          .loss_mask = rows.mask,
                                          .columns = part_.ids.count,
                                          .divergence = how.loss->divergence,
                                          .state = rows.gradient ? pass.state : TensorView(),
                                          .gradient = rows.gradient,
                                          .losses = rows.losses});
}

void OutputLayer::compare_kept(Pass& pass, const Compared& rows) const {
  const Distillation& how = pass.batch.distillation;
  const std::int64_t count = rows.logits.rows(), ranks = options_.place.size;
  const TensorView ids = how.kept_ids.slice(rows.begin, count);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView parts = pass.ops.scratch.allocate(rows.losses.dtype, {ranks, count, ids.shape[1] + 2});
  gather(pass, parts, [&](TensorView own) {
    ops::run(pass.ops, ops::KeptPart{.logits = rows.logits,
                                     .ids = ids,
                                     .loss_mask = rows.mask,
                                     .first_column = part_.ids.begin,
                                     .columns = part_.ids.count,
                                     .part = own});
  });
  ops::run(pass.ops, ops::KeptMerge{.logits = rows.logits,
                                    .ids = ids,
                                    .log_probabilities = how.kept_log_probabilities.slice(rows.begin, count),
                                    .parts = parts,
                                    .loss_mask = rows.mask,
                                    .first_column = part_.ids.begin,
                                    .columns = part_.ids.count,
                                    .vocabulary = options_.vocabulary,
                                    .divergence = how.loss->divergence,
                                    .state = rows.gradient ? pass.state : TensorView(),
                                    .gradient = rows.gradient,
                                    .losses = rows.losses});
}

void OutputLayer::distil(Pass& pass, TensorView logits, TensorView second, const Targets& targets,
                         std::int64_t begin, bool train) const {
  const Distillation& how = pass.batch.distillation;
  const double weight = how.loss->cross_entropy_weight;
  const bool both = train && weight > 0;
  const std::int64_t count = logits.rows();
  Scratch& scratch = pass.ops.scratch;
  Scratch::Frame frame(scratch);
  const TensorView mask = targets.mask.slice(begin, count),
                   out = train ? targets.losses.slice(begin, count)
                               : scratch.allocate(targets.losses.dtype, {count});
  const Compared rows{logits, mask, out, both ? second : train ? logits : TensorView(), begin};
  if (how.teacher)
    compare(pass, rows, second);
  else
    compare_kept(pass, rows);
  ops::run(pass.ops, ops::SumLosses{.losses = out, .loss_mask = mask, .state = how.sums});
  if (!both) return;
  const TensorView losses = scratch.allocate(out.dtype, {count});
  loss(pass, logits, {targets.labels.slice(begin, count), mask, losses}, 0, true);
  ops::run(pass.ops, ops::Combine{.a = weight, .b = 1, .x = losses, .y = out});
  ops::run(pass.ops, ops::Combine{.a = 1, .b = weight, .x = second, .y = logits});
}

void OutputLayer::train(Pass& pass, TensorView x, const Targets& targets, bool probe) const {
  const auto& o = options_;
  const DType compute = o.precision.compute;
  const TensorView w = pass.params.get(weight_.value);
  GradTarget target{{}, false}, bias_target = target;
  if (weight_.trained()) target = pass.grads->target(weight_.grad);
  if (bias_.trained()) bias_target = pass.grads->target(bias_.grad);
  const bool trains_rows = token_rows_ && token_rows_->trains();
  const TensorView row_target = trains_rows ? token_rows_->target(pass) : TensorView();
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t rows = x.rows(), step = piece(rows, compute);
  const TensorView block = pass.ops.scratch.allocate(compute, {step, part_.rows});
  const Distillation& how = pass.batch.distillation;
  const TensorView second =
      needs_second(how, true) ? pass.ops.scratch.allocate(compute, {step, part_.rows}) : TensorView();
  // Logits before the cap, by the cap: its slope is that of tanh there.
  const TensorView uncapped =
      o.softcap > 0 ? pass.ops.scratch.allocate(compute, {step, part_.rows}) : TensorView();
  std::vector<InFlight> sums;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    const TensorView h = x.slice(begin, count), logits = block.slice(0, count);
    const TensorView raw = uncapped ? uncapped.slice(0, count) : logits;
    project_uncapped(pass, h, raw, begin);
    if (uncapped) cap(pass, raw, logits);
    if (probe && pass.probe) pass.probe->logits(logits, begin, o.vocabulary);
    if (how)
      distil(pass, logits, second ? second.slice(0, count) : second, targets, begin, true);
    else
      loss(pass, logits, targets, begin, true);
    if (uncapped)
      ops::run(pass.ops,
               ops::ActivationBackward{
                   .kind = ops::ActivationKind::kTanh, .gated = false, .x = raw, .dy = logits, .dx = logits});
    if (target.tensor)
      ops::run(pass.ops, ops::LinearBackwardWeight{.x = h,
                                                   .dy = logits,
                                                   .dw = target.tensor,
                                                   .dbias = bias_target.tensor,
                                                   .accumulate = target.accumulate || begin > 0});
    else if (bias_target.tensor)
      ops::run(pass.ops, ops::BiasBackward{.dy = logits,
                                           .dbias = bias_target.tensor,
                                           .accumulate = bias_target.accumulate || begin > 0});
    {
      Scratch::Frame taken_frame(pass.ops.scratch);
      const TensorView taken = take_rows(pass, h, logits, row_target);
      const LowRank::Gradient branch = low_rank_.gradient(pass, w, logits);
      if (low_rank_)
        low_rank_.backward_weight(pass, branch, w, h,
                                  {.begin = begin, .first = begin == 0, .last = begin + step >= rows});
      // The rows of this piece have been read for the last time: their gradient takes their place.
      ops::run(pass.ops, ops::LinearBackwardInput{.dy = logits, .w = w, .dx = h});
      if (low_rank_) low_rank_.backward_input(pass, branch, w, h, begin);
      add_rows_input(pass, taken, h);
    }
    // Its sum over the ranks is under way while the next piece is computed.
    if (o.place.split() && !o.place.splits_stream()) sums.push_back(add_rows(pass, o.place, h, h));
  }
  if (weight_.trained()) pass.grads->notify(weight_.grad);
  if (bias_.trained()) pass.grads->notify(bias_.grad);
  if (trains_rows) token_rows_->notify(pass);
  for (auto& sum : sums) sum.wait();
}

}  // namespace stoa::nn
