// One rank of a training run: memory, model, stores, optimizer and executor, wired together. The same wiring
// on a meta machine is the memory plan.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "model/chunk.h"
#include "model/gpt.h"
#include "optim/batch_plan.h"
#include "optim/optimizer.h"
#include "run/decoder.h"
#include "run/device_batch.h"
#include "run/executor.h"
#include "run/layout.h"
#include "run/machine.h"
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
};

// The step scalars, as the host sees them.
struct StepScalars {
  std::vector<double> slots;
  double operator[](ops::StepSlot slot) const { return slots[static_cast<std::size_t>(slot)]; }
};

class TrainingRank {
 public:
  // Declares and commits all memory. `scratch_bytes`: what a dry run found (measure_scratch); none on a meta
  // machine. `parallel`: of options.layout.grid.
  TrainingRank(Machine& machine, const TrainingOptions& options, parallel::ParallelContext parallel,
               std::optional<std::size_t> scratch_bytes);

  // Scratch that training and evaluation need on a rank of the layout: both are walked on the meta machine.
  static std::size_t measure_scratch(Machine& meta, const TrainingOptions& options, int rank = 0);

  // Fresh weights from the seed, zero moments and counters.
  void initialize();

  // One step on all rows of `batch`; row 0 is global sample `first_sample` of the run. Gradients accumulate
  // over batch.rows / micro_batch microbatches.
  void step(const data::Batch& batch, std::int64_t first_sample, TraceRecorder* trace = nullptr);
  // Sum of token losses and number of valid tokens, without dropout and without a trace in the model's state.
  struct LossSum {
    double loss = 0, tokens = 0;
  };
  LossSum evaluate(const data::Batch& batch);

  StepScalars read_scalars();
  void write_scalars(const StepScalars& scalars);

  // For samples of text during training; null without sample_context.
  Decoder* decoder() { return decoder_.get(); }
  Decoder::Parts decoder_parts() { return {machine_, *ops_, parallel_, *chunk_, *parameters_}; }

  Arena& arena() { return arena_; }
  model::Chunk& chunk() { return *chunk_; }
  optim::ParameterStore& parameters() { return *parameters_; }
  optim::GradientStore& gradients() { return *gradients_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  ops::OpContext& ops() { return *ops_; }
  Machine& machine() { return machine_; }
  const parallel::ParallelContext& parallel() const { return parallel_; }
  const TrainingOptions& options() const { return options_; }
  Scratch& scratch() { return *scratch_; }

 private:
  void dry_run();
  void run_step(std::int64_t microbatches, double tokens, double samples, const StageMicrobatch& stage,
                TraceRecorder* trace);
  void evaluate_rows(const nn::BatchView& batch);

  Machine& machine_;
  const TrainingOptions options_;
  parallel::ParallelContext parallel_;
  Arena arena_;
  std::unique_ptr<model::Chunk> chunk_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  std::unique_ptr<optim::GradientStore> gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<DeviceBatch> batches_;  // by slot
  std::vector<model::Chunk::Slot> slots_;
  Arena::Id state_, evaluation_state_, losses_, scratch_memory_;
  std::vector<Arena::Id> slot_memory_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
  std::vector<schedule::Action> actions_;  // of the latest number of microbatches
  int microbatches_ = 0;
};

}  // namespace stoa::run
