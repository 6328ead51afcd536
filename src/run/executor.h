// Walks the action list of one rank. It knows nothing of pipelines: order, slots and microbatches come from
// the schedule.
#pragma once

#include <functional>
#include <vector>

#include "model/chunk.h"
#include "optim/optimizer.h"
#include "run/trace.h"
#include "schedule/action.h"

namespace stoa::run {

// What the actions act on. One chunk per rank until schedules place more.
struct ExecutorParts {
  ops::OpContext& ops;
  const parallel::ParallelContext& parallel;
  const model::Chunk& chunk;
  std::vector<model::Chunk::Slot>& slots;  // one per microbatch in flight
  optim::ParameterStore& parameters;
  optim::GradientStore& gradients;
  optim::Optimizer& optimizer;
  TensorView state;        // ops::StepSlot scalars
  std::uint64_t seed = 0;  // of dropout
  TraceRecorder* trace = nullptr;
};

// Brings a microbatch into the device batch of a slot.
using StageMicrobatch = std::function<const nn::BatchView&(int microbatch, int slot)>;

class Executor {
 public:
  explicit Executor(const ExecutorParts& parts) : parts_(parts) {}

  // One training step: every action of `actions` in order.
  void run(const std::vector<schedule::Action>& actions, const StageMicrobatch& stage,
           const ops::PrepareUpdate& prepare);

 private:
  void forward(const schedule::Action& action, const StageMicrobatch& stage);
  void backward(const schedule::Action& action, nn::Which which);
  int slot_of(int microbatch) const { return microbatch % static_cast<int>(parts_.slots.size()); }

  ExecutorParts parts_;
  std::vector<const nn::BatchView*> batches_;  // by slot
};

}  // namespace stoa::run
