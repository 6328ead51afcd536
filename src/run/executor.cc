#include "run/executor.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoa::run {

using schedule::Action;
using schedule::ActionKind;

namespace {

// A result on its way out: which chunk made it, for which microbatch, and whether it is a gradient.
std::int64_t key_of(const Action& action, LocalChunk::Inbox box) {
  return (static_cast<std::int64_t>(action.chunk) << 33) |
         (static_cast<std::int64_t>(action.microbatch) << 1) | (box == LocalChunk::Inbox::kGradient ? 1 : 0);
}

}  // namespace

Executor::Executor(const ExecutorParts& parts) : parts_(parts), batch_places_(parts.batches) {
  follow(&activity_);
}

Executor::~Executor() { follow(nullptr); }

void Executor::follow(const comm::Activity* activity) {
  for (int g = 0; g < parallel::kGroups; ++g) {
    const auto group = static_cast<parallel::Group>(g);
    if (parts_.parallel.belongs_to(group)) parts_.parallel.along(group).follow(activity);
  }
}

void Executor::begin(const std::vector<Action>& actions) {
  // An earlier walk may have ended in an error.
  for (LocalChunk& chunk : parts_.chunks) chunk.clear();
  parts_.outbox.clear();
  batch_places_.clear();
  batches_.clear();
  left_.clear();
  reductions_ = 0;
  for (const Action& action : actions) {
    if (is_compute(action.kind)) ++left_[action.microbatch];
    if (action.kind == ActionKind::kReduceGradients) ++reductions_;
  }
}

void Executor::train(const std::vector<Action>& actions, const StageMicrobatch& stage,
                     const ops::PrepareUpdate& prepare) {
  training_ = true;
  begin(actions);
  parts_.gradients.begin_step(parts_.ops, static_cast<int>(left_.size()));
  for (const Action& action : actions) {
    activity_ = {name_of(action.kind), action.chunk, action.microbatch};
    trace_begin(action);
    switch (action.kind) {
      case ActionKind::kSendActivation:
      case ActionKind::kSendGradient:
        send(action);
        break;
      case ActionKind::kReceiveActivation:
      case ActionKind::kReceiveGradient:
        receive(action);
        break;
      case ActionKind::kReduceGradients:
        // The uses of a tied weight may be on several chunks: all of them first.
        if (--reductions_ > 0) break;
        parts_.gradients.finish(parts_.ops);
        if (parts_.dump) parts_.dump->gradients(parts_.parameters, parts_.gradients);
        break;
      case ActionKind::kStep:
        // Before parameters are gathered, so that the exchange of magnitudes does not wait for them.
        if (parts_.amax) parts_.amax->gather(parts_.ops);
        parts_.optimizer.step(parts_.ops, prepare);
        if (parts_.amax) parts_.amax->update(parts_.ops, parts_.state);
        break;
      default:
        require<InternalError>(is_compute(action.kind), "action {} is not known to the executor",
                               to_text(action));
        compute(action, stage);
    }
    if (parts_.trace) parts_.trace->end();
  }
  parts_.outbox.finish();
}

void Executor::evaluate(const std::vector<Action>& actions, const StageMicrobatch& stage, TensorView losses,
                        Answers answers) {
  training_ = false;
  losses_ = losses;
  answers_ = std::move(answers);
  begin(actions);
  for (const Action& action : actions) {
    activity_ = {"evaluation", action.chunk, action.microbatch};
    if (is_compute(action.kind))
      compute(action, stage);
    else if (action.kind == ActionKind::kSendActivation)
      send(action);
    else
      receive(action);
  }
  parts_.outbox.finish();
}

void Executor::trace_begin(const Action& action) {
  if (!parts_.trace) return;
  std::string name(name_of(action.kind));
  if (action.chunk >= 0) name += fmt::format(" chunk {}", action.chunk);
  if (action.microbatch >= 0) name += fmt::format(" microbatch {}", action.microbatch);
  parts_.trace->begin(std::move(name));
}

LocalChunk& Executor::local(int chunk) {
  for (LocalChunk& own : parts_.chunks)
    if (own.number() == chunk) return own;
  fail<InternalError>("chunk {} is not on this rank", chunk);
}

bool Executor::is_here(int chunk) const {
  return std::any_of(parts_.chunks.begin(), parts_.chunks.end(),
                     [&](const LocalChunk& own) { return own.number() == chunk; });
}

nn::Pass Executor::pass(const nn::BatchView& batch, bool training) {
  return {.ops = parts_.ops,
          .parallel = parts_.parallel,
          .params = parts_.parameters,
          .grads = training ? &parts_.gradients : nullptr,
          .batch = batch,
          .state = parts_.state,
          .seed = parts_.seed,
          .training = training,
          .probe = training ? parts_.dump : nullptr};
}

void Executor::compute(const Action& action, const StageMicrobatch& stage) {
  const int m = action.microbatch;
  auto [held, fresh] = batches_.try_emplace(m, nullptr);
  if (fresh) held->second = &stage(m, batch_places_.take(m));
  const nn::BatchView& batch = *held->second;
  Scratch::Frame frame(parts_.ops.scratch);
  if (!training_)
    infer(action, batch);
  else if (action.kind == ActionKind::kForward)
    forward(action, batch);
  else
    backward(action,
             action.kind == ActionKind::kBackward        ? nn::Which::kBoth
             : action.kind == ActionKind::kBackwardInput ? nn::Which::kInput
                                                         : nn::Which::kWeight,
             batch);
  if (--left_[m] == 0) {
    batch_places_.release(m);
    batches_.erase(m);
  }
}

TensorView Executor::destination(const Action& action, Inbox box) {
  const int to = action.chunk + (box == Inbox::kInput ? 1 : -1);
  if (to < 0 || to >= parts_.placement.chunks()) return {};
  if (box == Inbox::kGradient && !parts_.placement.returns_gradient(action.chunk)) return {};
  if (is_here(to)) return local(to).expect(box, action.microbatch).tensor;
  return parts_.outbox.take(key_of(action, box));
}

TensorView Executor::await(const Action& action, Inbox box) {
  LocalChunk& own = local(action.chunk);
  if (!parts_.trace || !own.expected(box, action.microbatch)) return own.await(box, action.microbatch);
  parts_.trace->begin(box == Inbox::kInput ? "wait for input" : "wait for gradient");
  const TensorView tensor = own.await(box, action.microbatch);
  parts_.trace->end();
  return tensor;
}

void Executor::forward(const Action& action, const nn::BatchView& batch) {
  LocalChunk& own = local(action.chunk);
  const int m = action.microbatch;
  const TensorView out = own.chunk().rows_of(batch, destination(action, Inbox::kInput));
  const TensorView in =
      own.chunk().rows_of(batch, action.chunk > 0 ? await(action, Inbox::kInput) : TensorView());
  nn::Pass step = pass(batch, true);
  if (parts_.dump) parts_.dump->begin_pass(ckpt::DumpPhase::kForward, m, batch, action.chunk == 0);
  model::Chunk::Slot nothing;  // is kept without a backward pass
  own.chunk().forward(step, parts_.placement.runs_backward(action.chunk) ? own.take_slot(m) : nothing, in,
                      out);
  if (in) own.release(Inbox::kInput, m);
}

void Executor::infer(const Action& action, const nn::BatchView& batch) {
  LocalChunk& own = local(action.chunk);
  const int m = action.microbatch;
  model::Chunk::Outputs outputs;
  outputs.stream = own.chunk().rows_of(batch, destination(action, Inbox::kInput));
  if (is_last(action.chunk) && losses_) outputs.losses = losses_.slice(0, batch.tokens.rows());
  if (is_last(action.chunk) && answers_.normed) outputs.normed = answers_.normed(m);
  if (is_last(action.chunk) && answers_.memory) {
    outputs.rows = batch.masked.asked;
    outputs.logits = answers_.memory.slice(0, static_cast<std::int64_t>(outputs.rows.size()));
  }
  const TensorView in =
      own.chunk().rows_of(batch, action.chunk > 0 ? await(action, Inbox::kInput) : TensorView());
  nn::Pass step = pass(batch, false);
  if (is_last(action.chunk) && answers_.probe) step.probe = answers_.probe(m);
  own.chunk().infer(step, in, outputs);
  if (outputs.logits && answers_.take) answers_.take(m, outputs.logits);
  if (outputs.losses && answers_.take_losses) answers_.take_losses(m, outputs.losses);
  if (in) own.release(Inbox::kInput, m);
}

void Executor::backward(const Action& action, nn::Which which, const nn::BatchView& batch) {
  LocalChunk& own = local(action.chunk);
  const int m = action.microbatch;
  nn::Pass step = pass(batch, true);
  if (parts_.dump) parts_.dump->begin_pass(ckpt::DumpPhase::kBackward, m, batch, false);
  model::Chunk::Slot& slot = own.slot(m);
  if (which == nn::Which::kWeight) {
    own.chunk().backward(step, slot, which, {}, {});
    own.release_stash(m);
  } else {
    const TensorView din = own.chunk().rows_of(batch, destination(action, Inbox::kGradient));
    const TensorView dout =
        own.chunk().rows_of(batch, is_last(action.chunk) ? TensorView() : await(action, Inbox::kGradient));
    if (which == nn::Which::kInput) own.chunk().set_stash(slot, own.take_stash(m));
    own.chunk().backward(step, slot, which, dout, din);
    if (dout) own.release(Inbox::kGradient, m);
  }
  if (which != nn::Which::kInput) own.release_slot(m);
}

void Executor::send(const Action& action) {
  const Inbox box = action.kind == ActionKind::kSendActivation ? Inbox::kInput : Inbox::kGradient;
  const std::int64_t key = key_of(action, box);
  const int peer = peer_of(action, parts_.placement);
  parts_.outbox.posted(key, parts_.parallel.along(parallel::Axis::kPipeline)
                                .send(parts_.outbox.find(key), peer, parts_.ops.stream));
}

void Executor::receive(const Action& action) {
  const Inbox box = action.kind == ActionKind::kReceiveActivation ? Inbox::kInput : Inbox::kGradient;
  Arrival& arrival = local(action.chunk).expect(box, action.microbatch);
  const int peer = peer_of(action, parts_.placement);
  arrival.event =
      parts_.parallel.along(parallel::Axis::kPipeline).receive(arrival.tensor, peer, parts_.ops.stream);
}

}  // namespace stoa::run
