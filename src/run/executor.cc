#include "run/executor.h"

#include <fmt/format.h>

namespace stoa::run {

using schedule::Action;
using schedule::ActionKind;

void Executor::run(const std::vector<Action>& actions, const StageMicrobatch& stage,
                   const ops::PrepareUpdate& prepare) {
  batches_.assign(parts_.slots.size(), nullptr);
  parts_.gradients.begin_step();
  for (const Action& action : actions) {
    if (parts_.trace) {
      std::string name(name_of(action.kind));
      if (action.chunk >= 0) name += fmt::format(" chunk {}", action.chunk);
      if (action.microbatch >= 0) name += fmt::format(" microbatch {}", action.microbatch);
      parts_.trace->begin(std::move(name));
    }
    switch (action.kind) {
      case ActionKind::kForward:
        forward(action, stage);
        break;
      case ActionKind::kBackward:
        backward(action, nn::Which::kBoth);
        break;
      case ActionKind::kBackwardInput:
        backward(action, nn::Which::kInput);
        break;
      case ActionKind::kBackwardWeight:
        backward(action, nn::Which::kWeight);
        break;
      case ActionKind::kReduceGradients:
        parts_.gradients.finish(parts_.ops, parts_.parallel);
        break;
      case ActionKind::kStep:
        parts_.optimizer.step(parts_.ops, prepare);
        break;
      default:
        fail<InternalError>("action {} is not lowered for one rank", name_of(action.kind));
    }
    if (parts_.trace) parts_.trace->end();
  }
}

void Executor::forward(const Action& action, const StageMicrobatch& stage) {
  const int slot = slot_of(action.microbatch);
  batches_[slot] = &stage(action.microbatch, slot);
  Scratch::Frame frame(parts_.ops.scratch);
  nn::Pass pass{parts_.ops,        parts_.parallel,
                parts_.parameters, &parts_.gradients,
                *batches_[slot],   parts_.state,
                parts_.seed,       true,
                nullptr,           {}};
  parts_.chunk.forward(pass, parts_.slots[slot], {}, {});
}

void Executor::backward(const Action& action, nn::Which which) {
  const int slot = slot_of(action.microbatch);
  Scratch::Frame frame(parts_.ops.scratch);
  nn::Pass pass{parts_.ops,        parts_.parallel,
                parts_.parameters, &parts_.gradients,
                *batches_[slot],   parts_.state,
                parts_.seed,       true,
                nullptr,           {}};
  parts_.chunk.backward(pass, parts_.slots[slot], which, {}, {});
}

}  // namespace stoa::run
