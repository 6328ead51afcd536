// Walks the action list of one rank. It knows nothing of pipelines: order, chunks and microbatches come from
// the schedule.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "optim/amax_history.h"
#include "optim/optimizer.h"
#include "run/pipeline_memory.h"
#include "run/step_dump.h"
#include "run/trace.h"
#include "schedule/action.h"

namespace stoa::run {

// What the actions act on.
struct ExecutorParts {
  ops::OpContext& ops;
  const parallel::ParallelContext& parallel;
  const schedule::ChunkPlacement& placement;
  std::vector<LocalChunk>& chunks;  // of this rank, in model order
  Outbox& outbox;
  int batches = 1;  // microbatches whose batch can be held at once
  optim::ParameterStore& parameters;
  optim::GradientStore& gradients;
  optim::Optimizer& optimizer;
  TensorView state;        // ops::StepSlot scalars
  std::uint64_t seed = 0;  // of dropout
  TraceRecorder* trace = nullptr;
  StepDump* dump = nullptr;
  optim::AmaxHistory* amax = nullptr;  // of delayed scaling
};

// Brings a microbatch into device batch number `place`.
using StageMicrobatch = std::function<const nn::BatchView&(int microbatch, int place)>;

class Executor {
 public:
  explicit Executor(const ExecutorParts& parts);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // One training step: every action of `actions` in order.
  void train(const std::vector<schedule::Action>& actions, const StageMicrobatch& stage,
             const ops::PrepareUpdate& prepare);
  // Receives the logits of the requested tokens (nn::MaskedTargets), one microbatch after the other.
  struct Answers {
    TensorView memory;                                            // none: not requested
    std::function<void(int microbatch, TensorView logits)> take;  // none: a dry run
    // Receives the losses of the head's tokens, likewise; none: not requested.
    std::function<void(int microbatch, TensorView losses)> take_losses = {};
    // Where the head's normed rows go (model::Chunk::Outputs); none: not requested.
    std::function<TensorView(int microbatch)> normed = {};
    // What sees the head's logits; none: not requested.
    std::function<nn::Probe*(int microbatch)> probe = {};
  };
  // Forward passes only; losses of the head's tokens go to `losses`, if that is given, and their sum to the
  // state.
  void evaluate(const std::vector<schedule::Action>& actions, const StageMicrobatch& stage, TensorView losses,
                Answers answers);

 private:
  using Inbox = LocalChunk::Inbox;

  void begin(const std::vector<schedule::Action>& actions);
  void compute(const schedule::Action& action, const StageMicrobatch& stage);
  void forward(const schedule::Action& action, const nn::BatchView& batch);
  void infer(const schedule::Action& action, const nn::BatchView& batch);
  void backward(const schedule::Action& action, nn::Which which, const nn::BatchView& batch);
  void send(const schedule::Action& action);
  void receive(const schedule::Action& action);
  void trace_begin(const schedule::Action& action);
  void follow(const comm::Activity* activity);  // of all communicators

  nn::Pass pass(const nn::BatchView& batch, bool training);
  LocalChunk& local(int chunk);
  bool is_here(int chunk) const;
  bool is_last(int chunk) const { return chunk + 1 == parts_.placement.chunks(); }
  // Where the result of a chunk goes: to a chunk of this rank, or into a buffer to be sent. None past the
  // ends.
  TensorView destination(const schedule::Action& action, Inbox box);
  // What the action reads; the trace shows how long it was waited for.
  TensorView await(const schedule::Action& action, Inbox box);

  ExecutorParts parts_;
  Places batch_places_;
  std::map<int, const nn::BatchView*> batches_;  // of microbatches at work
  std::map<int, int> left_;                      // computations of a microbatch that are still to come
  int reductions_ = 0;                           // still to come
  TensorView losses_;                            // of an evaluation
  Answers answers_;                              // likewise
  bool training_ = true;
  comm::Activity activity_;  // for messages of waits that fail
};

}  // namespace stoa::run
