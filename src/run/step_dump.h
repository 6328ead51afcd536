// Writes the tensors of one training step to a dump: weights before it, what the layers show of their passes,
// and the gradients after the last microbatch.
#pragma once

#include <string>
#include <vector>

#include "ckpt/tensor_dump.h"
#include "infer/machine.h"
#include "nn/pass.h"
#include "optim/gradient_store.h"
#include "optim/parameter_store.h"

namespace stoa::run {

class StepDump final : public nn::Probe {
 public:
  struct Step {
    std::int64_t number = 1;        // from 1
    std::int64_t first_sample = 0;  // of the run: row 0 of the step's global batch
    std::int64_t rows = 0;          // of the global batch
    std::int64_t length = 0;        // tokens per row
    std::int64_t layers = 0;        // of the model
    std::vector<std::string> only;  // names to write, with * and ?; empty: all
  };
  StepDump(ckpt::DumpWriter& writer, infer::Machine& machine, const parallel::ParallelContext& parallel,
           Step step);

  // In the order of a step. `loss_scale`: gradients are this times the true ones.
  void begin(optim::ParameterStore& parameters, double loss_scale);
  // `show_batch`: tokens and labels are written too.
  void begin_pass(ckpt::DumpPhase phase, int microbatch, const nn::BatchView& batch, bool show_batch);
  void gradients(const optim::ParameterStore& parameters, optim::GradientStore& gradients);
  void end(double loss, double rate);

  void forward(std::string_view layer, std::string_view tensor, TensorView view,
               nn::Columns columns) override;
  void gradient(std::string_view layer, std::string_view tensor, TensorView view,
                nn::Columns columns) override;
  void logits(TensorView view, std::int64_t first, std::int64_t vocabulary) override;

 private:
  bool wanted(const std::string& name) const;
  std::int64_t layer_of(std::string_view name) const;
  std::vector<std::byte> copy(TensorView view);
  // A tensor of the current microbatch; `first`: this rank's token of the microbatch in its row 0, -1: its
  // place among the ranks says.
  void add(ckpt::DumpPhase phase, std::string name, TensorView view, nn::Columns columns = {},
           std::int64_t first = -1);
  // Consecutive tokens of the microbatch from `first` on.
  void add_run(ckpt::DumpPhase phase, const std::string& name, TensorView view, nn::Columns columns,
               std::int64_t first);
  // What this rank holds of a parameter, in `held`.
  void add_held(ckpt::DumpPhase phase, const optim::ParameterStore& parameters, nn::ParamId id,
                TensorView held, double scale);

  ckpt::DumpWriter& writer_;
  infer::Machine& machine_;
  const parallel::ParallelContext& parallel_;
  const Step step_;
  double loss_scale_ = 1;
  ckpt::DumpPhase phase_ = ckpt::DumpPhase::kForward;
  int microbatch_ = 0;
  const nn::BatchView* batch_ = nullptr;
};

}  // namespace stoa::run
