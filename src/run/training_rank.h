// One rank of a training run: memory, model, stores, optimizer and executor, connected. The same object on a
// meta machine is the memory plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "infer/engine/paged_model.h"
#include "infer/machine.h"
#include "model/chunk.h"
#include "model/model_spec.h"
#include "optim/batch_plan.h"
#include "optim/optimizer.h"
#include "run/device_batch.h"
#include "run/executor.h"
#include "run/layout.h"
#include "run/teacher_rank.h"
#include "schedule/action.h"

namespace stoa::run {

struct TrainingOptions {
  model::ModelSpec model;
  optim::OptimConfig optim;
  nn::Precision precision;
  std::int64_t micro_batch = 1;   // rows
  std::int64_t length = 1024;     // tokens per row
  std::int64_t microbatches = 1;  // in the largest step, on this rank: sets the number of slots
  Layout layout;
  bool packed = false;  // attention stops at document ends
  double max_norm = 0;  // 0: no clipping
  ops::RateSchedule rate;
  ops::WeightDecaySchedule weight_decay;
  ops::LossScale loss_scale;
  double initial_loss_scale = 1;
  bool evaluation = true;                      // declare memory for validation
  std::int64_t sample_context = 0;             // cache tokens for a text that is drawn or scored; 0: none
  std::int64_t sample_texts = 1;               // so many at once
  std::optional<TeacherOptions> teacher = {};  // of a distillation: the loss of training compares with it
  // The same, where the most likely tokens of a teacher were kept before: batches have them.
  struct Kept {
    std::int64_t top = 0;  // tokens
    nn::DistillationLoss loss;
  };
  std::optional<Kept> kept = {};
  // None without a distillation.
  const nn::DistillationLoss* distillation() const {
    return teacher ? &teacher->loss : kept ? &kept->loss : nullptr;
  }
  // Device bytes that a rank may use; none: all that the device has.
  std::optional<std::size_t> memory_limit = {};
};

// A host copy of the step scalars.
struct StepScalars {
  std::vector<double> slots;
  double operator[](ops::StepSlot slot) const { return slots[static_cast<std::size_t>(slot)]; }
};

// The schedule of a step of `microbatches` microbatches, in which stages with nothing to train run forward
// only.
schedule::Schedule step_schedule(const TrainingOptions& options, std::int64_t microbatches);

// By stage, what it holds at most at once in training and evaluation with up to options.microbatches
// microbatches: the buffers to declare.
std::vector<schedule::Holdings> most_held(const TrainingOptions& options);

class TrainingRank {
 public:
  // Declares and commits all memory, and waits until all ranks have theirs. `scratch_bytes`: the result of
  // measure_scratch; none on a meta machine. `parallel`: of options.layout.grid. DeviceError if the total
  // exceeds options.memory_limit; ConfigError if the layout does not fit the model, or the schedule the
  // microbatches.
  TrainingRank(infer::Machine& machine, const TrainingOptions& options, parallel::ParallelContext parallel,
               std::optional<std::size_t> scratch_bytes);

  // Scratch bytes for training and evaluation on a rank of the layout, by a dry run on the meta machine.
  static std::size_t measure_scratch(infer::Machine& meta, const TrainingOptions& options, int rank = 0);
  // The same for a rank created on a meta machine without scratch. `fullest`: set to the operation at which
  // scratch use is highest.
  std::size_t measure_scratch(std::string* fullest = nullptr);

  // Initial weights from the seed, zero moments and counters.
  void initialize();

  // Runs a step on this rank's rows. The global batch starts with sample `first_sample` of the run, and
  // microbatch m of data rank d of D is its rows [(m D + d) micro_batch, …). batch.valid_tokens counts the
  // global batch. Gradients accumulate over batch.rows / micro_batch microbatches. Ranks of one pipeline get
  // the same rows.
  void step(const data::Batch& batch, std::int64_t first_sample, TraceRecorder* trace = nullptr,
            StepDump* dump = nullptr);
  // Sum of token losses over all ranks and number of valid tokens, without dropout; the model's state is
  // unchanged. Every rank gets the sum.
  struct LossSum {
    double loss = 0, tokens = 0;
    double divergence = 0;  // likewise, of a distillation
  };
  // Receives the logits of a labelled task's head, on the host, [tokens, classes], for the requested tokens
  // (nn::MaskedTargets::asked) of the microbatch that begins with row `row` of the batch.
  using AnswerSink = std::function<void(std::int64_t row, TensorView logits)>;
  // Receives the losses of the tokens of the microbatch that begins with row `row`, on the host: those that
  // this rank holds, in its order.
  using LossSink = std::function<void(std::int64_t row, TensorView losses)>;
  // Receives this rank's columns of the logits, on the host, of tokens [token, …) of those that this rank
  // holds of the microbatch that begins with row `row`.
  using LogitsSink = std::function<void(std::int64_t row, std::int64_t token, TensorView logits)>;
  // `sentence_weight`: weight of a row's sentence loss (nn::MaskedTargets); `answers`, `losses`, `logits`:
  // called on ranks with the head, or none.
  LossSum evaluate(const data::Batch& batch, double sentence_weight = 0, const AnswerSink& answers = {},
                   const LossSink& losses = {}, const LogitsSink& logits = {});

  // The weights of options.teacher, before the first step. Collective.
  void load_teacher(const infer::ModelFiles& files) { teacher_->load(machine_, files); }
  TeacherRank* teacher() { return teacher_.get(); }  // null without options.teacher

  // The sum of the divergences of a distillation's last step, over all ranks, times temperature^2.
  double read_divergence();

  StepScalars read_scalars();
  void write_scalars(const StepScalars& scalars);

  // For text samples and tasks during training; null without sample_context.
  infer::PassModel* passes() { return passes_.get(); }

  Arena& arena() { return arena_; }
  // This rank's chunks in model order; all declare their parameters in one list.
  const std::vector<std::unique_ptr<model::Chunk>>& chunks() const { return chunks_; }
  const nn::ParamList& params() const { return params_; }
  optim::ParameterStore& parameters() { return *parameters_; }
  optim::GradientStore& gradients() { return *gradients_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Delayed scaling; null without it, or if no layer of this rank has FP8 GEMMs.
  optim::AmaxHistory* amax_history() { return amax_.get(); }
  // Call after the histories were loaded.
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
  // This rank's actions.
  const std::vector<schedule::Action>& step_actions(std::int64_t microbatches);
  const std::vector<schedule::Action>& evaluation_actions(std::int64_t microbatches);
  void run_step(const std::vector<schedule::Action>& actions, double tokens, double samples,
                const StageMicrobatch& stage, TraceRecorder* trace, StepDump* dump = nullptr);
  // The teacher's forward passes over the rows of a step or a part of them. `stage`: as for the step.
  void ask_teacher(std::int64_t microbatches, const StageMicrobatch& stage);
  // The batch of a step's microbatch with what the teacher says of it.
  const nn::BatchView& taught(const nn::BatchView& batch, int microbatch, int place);
  void clear_divergence();
  TensorView divergence_sum();
  int stage() const { return parallel_.coordinate(parallel::Axis::kPipeline); }
  void add_over_ranks(TensorView value);
  TensorView evaluation_losses();   // on ranks with the head
  TensorView evaluation_answers();  // there, for a labelled task

  infer::Machine& machine_;
  const TrainingOptions options_;
  parallel::ParallelContext parallel_;
  Arena arena_;
  schedule::ChunkPlacement placement_;
  nn::ParamList params_;
  std::vector<std::unique_ptr<model::Chunk>> chunks_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  std::unique_ptr<optim::GradientStore> gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::AmaxHistory> amax_;
  schedule::Holdings holdings_;
  std::unique_ptr<nn::OffloadRing> ring_;
  std::vector<LocalChunk> local_;     // memory of chunks_
  std::vector<DeviceBatch> batches_;  // microbatches in flight
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<TeacherRank> teacher_;  // of a distillation
  Arena::Id state_, divergence_, evaluation_state_, losses_, answers_, scratch_memory_;
  std::unique_ptr<infer::PagedModel> passes_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
  // Cached for the latest numbers of microbatches.
  std::vector<schedule::Action> step_actions_, evaluation_actions_;
  std::int64_t step_microbatches_ = 0, evaluation_microbatches_ = 0;
};

}  // namespace stoa::run
