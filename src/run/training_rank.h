// One rank of a training run: memory, model, stores, optimizer and executor, wired together. The same wiring
// on a meta machine is the memory plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "infer/decoder.h"
#include "infer/machine.h"
#include "model/chunk.h"
#include "model/gpt.h"
#include "optim/batch_plan.h"
#include "optim/optimizer.h"
#include "run/device_batch.h"
#include "run/executor.h"
#include "run/layout.h"
#include "schedule/action.h"

namespace stoa::run {

struct TrainingOptions {
  model::Gpt model;
  optim::OptimConfig optim;
  nn::Precision precision;
  std::int64_t micro_batch = 1;   // rows
  std::int64_t length = 1024;     // tokens per row
  std::int64_t microbatches = 1;  // of the largest step, on this rank: slots are declared for it
  Layout layout;
  bool packed = false;  // attention stops at document ends
  double max_norm = 0;  // 0: no clipping
  ops::RateSchedule rate;
  ops::WeightDecaySchedule weight_decay;
  ops::LossScale loss_scale;
  double initial_loss_scale = 1;
  bool evaluation = true;           // memory for validation is declared
  std::int64_t sample_context = 0;  // tokens of a cache to draw samples of text with; 0: none
  // Bytes of its device that a rank may take; none: what the device has.
  std::optional<std::size_t> memory_limit = {};
};

// The step scalars, as the host sees them.
struct StepScalars {
  std::vector<double> slots;
  double operator[](ops::StepSlot slot) const { return slots[static_cast<std::size_t>(slot)]; }
};

// What a stage holds at once in training and evaluation, whatever the number of microbatches up to
// options.microbatches: the buffers that are declared. By stage.
std::vector<schedule::Holdings> most_held(const TrainingOptions& options);

class TrainingRank {
 public:
  // Declares and commits all memory, and waits until all ranks have theirs. `scratch_bytes`: what a dry run
  // found (measure_scratch); none on a meta machine. `parallel`: of options.layout.grid.
  // DeviceError where they are more than options.memory_limit.
  // ConfigError where the layout does not fit the model or the schedule not the microbatches.
  TrainingRank(infer::Machine& machine, const TrainingOptions& options, parallel::ParallelContext parallel,
               std::optional<std::size_t> scratch_bytes);

  // Scratch that training and evaluation need on a rank of the layout: both are walked on the meta machine.
  static std::size_t measure_scratch(infer::Machine& meta, const TrainingOptions& options, int rank = 0);
  // The same for a rank that was wired on a meta machine without scratch. `fullest`: the operation at which
  // it takes most.
  std::size_t measure_scratch(std::string* fullest = nullptr);

  // Fresh weights from the seed, zero moments and counters.
  void initialize();

  // One step on the rows of this rank, whose global batch starts with sample `first_sample` of the run:
  // microbatch m of data rank d of D is its rows [(m D + d) micro_batch, …). batch.valid_tokens is of the
  // global batch. Gradients accumulate over batch.rows / micro_batch microbatches. Ranks of one pipeline get
  // the same rows.
  void step(const data::Batch& batch, std::int64_t first_sample, TraceRecorder* trace = nullptr,
            StepDump* dump = nullptr);
  // Sum of token losses over all ranks and number of valid tokens, without dropout and without a trace in the
  // model's state. Every rank gets the sum.
  struct LossSum {
    double loss = 0, tokens = 0;
  };
  // What a labelled task's head answers: logits on the host, [tokens, classes], of the tokens that are asked
  // of in the microbatch that begins with row `row` of the batch (nn::MaskedTargets::asked).
  using AnswerSink = std::function<void(std::int64_t row, TensorView logits)>;
  // `sentence_weight`: of a row's sentence loss (nn::MaskedTargets); `answers`: called on the ranks of the
  // head, or none.
  LossSum evaluate(const data::Batch& batch, double sentence_weight = 0, const AnswerSink& answers = {});

  StepScalars read_scalars();
  void write_scalars(const StepScalars& scalars);

  // For samples of text during training; null without sample_context.
  infer::Decoder* decoder() { return decoder_.get(); }
  infer::Decoder::Parts decoder_parts() {
    return {machine_, *ops_, parallel_, *chunks_.front(), *parameters_};
  }

  Arena& arena() { return arena_; }
  // Of this rank, in model order; all declare their parameters in one list.
  const std::vector<std::unique_ptr<model::Chunk>>& chunks() const { return chunks_; }
  const nn::ParamList& params() const { return params_; }
  optim::ParameterStore& parameters() { return *parameters_; }
  optim::GradientStore& gradients() { return *gradients_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Of delayed scaling; null without it, and where no layer of this rank has 8-bit products.
  optim::AmaxHistory* amax_history() { return amax_.get(); }
  // After its histories were written from outside.
  void refresh_scales() { amax_->update(*ops_, arena_.view(state_)); }
  ops::OpContext& ops() { return *ops_; }
  infer::Machine& machine() { return machine_; }
  const parallel::ParallelContext& parallel() const { return parallel_; }
  const TrainingOptions& options() const { return options_; }
  Scratch& scratch() { return *scratch_; }

 private:
  void make_chunks();
  void make_amax_history();
  Executor executor(TensorView state, std::uint64_t seed, TraceRecorder* trace, StepDump* dump = nullptr);
  // The actions of this rank.
  const std::vector<schedule::Action>& step_actions(std::int64_t microbatches);
  const std::vector<schedule::Action>& evaluation_actions(std::int64_t microbatches);
  void run_step(const std::vector<schedule::Action>& actions, double tokens, double samples,
                const StageMicrobatch& stage, TraceRecorder* trace, StepDump* dump = nullptr);
  int stage() const { return parallel_.coordinate(parallel::Axis::kPipeline); }
  void add_over_ranks(TensorView value);
  TensorView evaluation_losses();   // on the rank of the head
  TensorView evaluation_answers();  // there, of a labelled task

  infer::Machine& machine_;
  const TrainingOptions options_;
  parallel::ParallelContext parallel_;
  Arena arena_;
  schedule::Placement placement_;
  nn::ParamList params_;
  std::vector<std::unique_ptr<model::Chunk>> chunks_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  std::unique_ptr<optim::GradientStore> gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::AmaxHistory> amax_;
  schedule::Holdings holdings_;
  std::unique_ptr<nn::OffloadRing> ring_;
  std::vector<LocalChunk> local_;     // memory of chunks_
  std::vector<DeviceBatch> batches_;  // microbatches at work
  std::unique_ptr<Outbox> outbox_;
  Arena::Id state_, evaluation_state_, losses_, answers_, scratch_memory_;
  std::unique_ptr<infer::Decoder> decoder_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
  // Of the latest numbers of microbatches.
  std::vector<schedule::Action> step_actions_, evaluation_actions_;
  std::int64_t step_microbatches_ = 0, evaluation_microbatches_ = 0;
};

}  // namespace stoa::run
