#include "nn/encoder_decoder_block.h"

#include "nn/adapted_sublayer.h"
#include "nn/dropout.h"

namespace stoa::nn {

EncoderDecoderBlock::EncoderDecoderBlock(const EncoderDecoderBlockOptions& options)
    : options_(options),
      attention_(adapted(std::make_unique<SelfAttention>(options.attention), options.attention_adapter)),
      mlp_(adapted(std::make_unique<Mlp>(options.mlp), options.mlp_adapter)) {
  if (options.cross) cross_.emplace(*options.cross);
  const auto add = [&](const std::string& norm, const std::string& name) {
    steps_.push_back({name, Norm(norm, options.norm, options.attention.hidden, options.attention.place,
                                 options.attention.place.splits_stream())});
  };
  const std::string& name = options.name;
  add(name + ".norm1", name + ".attention");
  if (cross_) add(name + ".cross_norm", name + ".cross_attention");
  add(name + ".norm2", name + ".mlp");
  if (!options.final_norm.empty()) add(options.final_norm, options.final_norm);
}

void EncoderDecoderBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const auto& o = options_;
  const Precision precision = o.precision;
  const std::int64_t source = o.source_tokens, target = tokens - source;
  const std::int64_t mine = part() == RowPart::kSource ? source : target;
  const auto stream = [&](std::int64_t all) { return o.attention.place.stream_rows(all); };
  const std::int64_t rows = stream(mine), hidden = o.attention.hidden;
  const auto activation =
      [&](const std::string& name, DType type, Shape shape, Producer producer, std::size_t step,
          void (EncoderDecoderBlock::*make)(Pass&, Saved&, std::size_t) const, bool weight_input = false) {
        return table.declare(
            {.tensor = {name, type, shape},
             .producer = producer,
             .make = [this, make, step](Pass& pass, Saved& saved) { (this->*make)(pass, saved, step); },
             .weight_input = weight_input});
      };
  input_ = table.declare({.tensor = {o.name + ".input", precision.residual, {stream(tokens), hidden}},
                          .producer = Producer::kInput,
                          .make = {}});
  table.declare_rows(RowPart::kSource, stream(source));
  table.declare_rows(RowPart::kTarget, stream(target));
  if (cross_) {
    table.begin_rows(RowPart::kSource);
    memory_ = table.declare({.tensor = {o.name + ".memory", precision.compute, {stream(source), hidden}},
                             .producer = Producer::kCast,
                             .make = [this](Pass& pass, Saved& saved) { make_memory(pass, saved); },
                             .weight_input = true});
  }
  table.begin_rows(part());
  const Shape shape{rows, hidden};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    step.norm.declare(params);
    if (i > 0)
      step.sum = activation(step.name + ".sum", precision.residual, shape, Producer::kSum, i,
                            &EncoderDecoderBlock::make_sum);
    step.normed = activation(step.name + ".normed", precision.compute, shape, Producer::kNorm, i,
                             &EncoderDecoderBlock::make_norm, true);
    step.stats = activation(step.name + ".statistics", precision.vectors(), {rows, 2}, Producer::kNorm, i,
                            &EncoderDecoderBlock::make_norm);
    if (i == branches()) continue;
    if (is_cross(i)) {
      cross_->declare(params, table, source, target, precision, step.normed, memory_);
    } else if (i == 0) {
      attention_->declare(params, table, mine, precision, step.normed);
    } else {
      mlp_->set_stream(step.sum);
      mlp_->declare(params, table, mine, precision, step.normed);
    }
    if (i + 1 < steps_.size())
      step.branch = activation(step.name + ".branch", precision.compute, shape, Producer::kBranch, i,
                               &EncoderDecoderBlock::make_branch);
  }
}

EncoderDecoderBlock::Rows EncoderDecoderBlock::split(const Pass& pass, TensorView stream) const {
  const std::int64_t source = options_.attention.place.stream_rows(pass.batch.source_tokens());
  const TensorView first = stream.slice(0, source), second = stream.slice(source, stream.rows() - source);
  return part() == RowPart::kSource ? Rows{first, second} : Rows{second, first};
}

const Sublayer& EncoderDecoderBlock::sublayer(std::size_t step) const {
  return step == 0 ? *attention_ : *mlp_;
}
int EncoderDecoderBlock::last_of(std::size_t step) const {
  return is_cross(step) ? cross_->last() : sublayer(step).last();
}

DropoutRows EncoderDecoderBlock::dropout(const Pass& pass, std::size_t step) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kHiddenDropout, steps_[step].name,
                    options_.attention.place);
}

TensorView EncoderDecoderBlock::before(Pass& pass, Saved& saved, std::size_t step) const {
  return step == 0 ? split(pass, saved.get(pass, input_)).mine : saved.get(pass, steps_[step].sum);
}

void EncoderDecoderBlock::make_memory(Pass& pass, Saved& saved) const {
  const TensorView source = split(pass, saved.get(pass, input_)).other;
  ops::run(pass.ops, ops::Cast{.x = source, .y = saved.put(pass, memory_)});
}

void EncoderDecoderBlock::make_norm(Pass& pass, Saved& saved, std::size_t index) const {
  const Step& step = steps_[index];
  const TensorView x = before(pass, saved, index);
  if (saved.made(step.normed)) return;  // together with the sum
  const TensorView y = saved.put(pass, step.normed);
  step.norm.forward(pass, x, y, pass.training ? saved.put(pass, step.stats) : TensorView());
}

void EncoderDecoderBlock::make_branch(Pass& pass, Saved& saved, std::size_t index) const {
  saved.get(pass, last_of(index));
  const TensorView branch = saved.put(pass, steps_[index].branch);
  Scratch::Frame frame(pass.ops.scratch);
  run(pass, saved, index, branch);
}

void EncoderDecoderBlock::run(Pass& pass, Saved& saved, std::size_t step, TensorView y) const {
  if (is_cross(step))
    cross_->forward(pass, saved, y);
  else
    sublayer(step).forward(pass, saved, y);
  pass.show(steps_[step].name, ".output", y);
}

// A single operation computes the sum after a branch and its norm.
void EncoderDecoderBlock::make_sum(Pass& pass, Saved& saved, std::size_t index) const {
  const Step& step = steps_[index];
  const TensorView x = before(pass, saved, index - 1), branch = saved.get(pass, steps_[index - 1].branch);
  const TensorView sum = saved.put(pass, step.sum), y = saved.put(pass, step.normed);
  const TensorView stats = pass.training ? saved.put(pass, step.stats) : TensorView();
  step.norm.add_forward(pass, x, branch, dropout(pass, index - 1), sum, y, stats);
}

void EncoderDecoderBlock::forward(Pass& whole, Saved& saved, TensorView out) {
  Pass pass = whole.on(part() == RowPart::kSource ? *whole.batch.source : *whole.batch.target);
  if (!cross_) pass.cache = nullptr;  // sources are read once, and whole
  const Rows in = split(whole, saved.get(pass, input_)), to = split(whole, out);
  if (to.other.rows() > 0 && in.other.data != to.other.data)
    ops::run(pass.ops, ops::Cast{.x = in.other, .y = to.other});
  if (to.mine.rows() == 0) return;
  if (part() == RowPart::kSource)
    saved.set_rows(in.mine.rows(), in.other.rows());
  else
    saved.set_rows(in.other.rows(), in.mine.rows());
  if (branches() < steps_.size()) {
    // Dropout is linear and its own transpose.
    dropout_backward(pass, dropout(pass, branches()), saved.get(pass, steps_.back().normed), to.mine);
  } else {
    const std::size_t last = branches() - 1;
    const TensorView x = before(pass, saved, last);
    saved.get(pass, last_of(last));
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView branch = pass.ops.scratch.allocate(options_.precision.compute, to.mine.shape);
    run(pass, saved, last, branch);
    add_branch(pass, dropout(pass, last), x, branch, to.mine);
  }
  pass.show(options_.name, ".output", to.mine);
}

void EncoderDecoderBlock::backward(Pass& whole, Saved& saved, Which which, TensorView dout, TensorView din) {
  Pass pass = whole.on(part() == RowPart::kSource ? *whole.batch.source : *whole.batch.target);
  if (which == Which::kWeight) {
    mlp_->backward_weight(pass, saved);
    if (cross_) cross_->backward_weight(pass, saved);
    attention_->backward_weight(pass, saved);
    return;
  }
  const DType compute = options_.precision.compute;
  const Rows from = split(whole, dout), to = split(whole, din);
  // Recompute activations before the gradients' temporaries are allocated.
  std::vector<TensorView> x, stats;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    x.push_back(before(pass, saved, i));
    stats.push_back(saved.get(pass, steps_[i].stats));
  }
  const auto stash = [&](std::size_t i) {
    return saved.put_stash(pass, which,
                           is_cross(i) ? cross_->output_gradient() : sublayer(i).output_gradient());
  };
  pass.show_gradient(options_.name, ".output", from.mine);
  const TensorView dnormed = pass.ops.scratch.allocate(compute, from.mine.shape);
  const TensorView dmemory = cross_ ? pass.ops.scratch.allocate(compute, from.other.shape) : TensorView();
  // Gradients of the stream after the current step, and of its branch.
  TensorView dstream = from.mine, dbranch;
  std::size_t end = steps_.size();
  if (branches() < end) {
    --end;
    dropout_backward(pass, dropout(pass, end), from.mine, dnormed);
    dbranch = stash(end - 1);
    steps_[end].norm.backward(pass, {.x = x[end],
                                     .stats = stats[end],
                                     .dy = dnormed,
                                     .dresidual = {},
                                     .dx = to.mine,
                                     .dropout = dropout(pass, end - 1),
                                     .dbranch = dbranch});
    dstream = to.mine;
  } else {
    dbranch = stash(end - 1);
    dropout_backward(pass, dropout(pass, end - 1), from.mine, dbranch);
  }
  for (std::size_t i = end; i-- > 0;) {
    if (is_cross(i)) {
      cross_->backward(pass, saved, which, dbranch, dnormed, dmemory);
    } else {
      const TensorView direct = sublayer(i).stream_gradient(pass, saved, dbranch);
      sublayer(i).backward(pass, saved, which, dbranch, dnormed);
      if (direct) {
        ops::run(pass.ops, ops::AddTo{.x = dstream, .y = direct});
        dstream = direct;
      }
    }
    const TensorView next = i > 0 ? stash(i - 1) : TensorView();
    steps_[i].norm.backward(pass, {.x = x[i],
                                   .stats = stats[i],
                                   .dy = dnormed,
                                   .dresidual = dstream,
                                   .dx = to.mine,
                                   .dropout = i > 0 ? dropout(pass, i - 1) : DropoutRows(),
                                   .dbranch = next});
    dstream = to.mine;
    dbranch = next;
  }
  if (dmemory)
    ops::run(pass.ops, ops::ResidualAdd{.x = from.other, .branch = dmemory, .dropout = {}, .y = to.other});
  else if (from.other.data != to.other.data)
    ops::run(pass.ops, ops::Cast{.x = from.other, .y = to.other});
}

}  // namespace stoa::nn
