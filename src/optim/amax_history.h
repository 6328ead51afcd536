// Delayed scaling of 8-bit products (nn/fp8.h): the largest magnitudes that the tensors of linear layers had
// in earlier steps, of which the scales of this step are made.
//
// A step counts once, with the largest magnitude among its microbatches and all ranks that hold parts or
// copies of a tensor, so that the layout, the schedule and the size of a microbatch do not show. Steps that
// are skipped do not count (ops::AmaxHistoryUpdate).
#pragma once

#include <string>
#include <vector>

#include "device/arena.h"
#include "nn/fp8.h"
#include "nn/module.h"

namespace stoa::optim {

struct AmaxHistoryOptions {
  std::int64_t length = 1024;  // steps
  bool most_recent = false;    // the scale is of the last step; else of the largest magnitude in the history
};

class AmaxHistory final : public nn::AmaxAccess {
 public:
  // `layers`: matrices of `params`, in some order; the same on all ranks of a pipeline stage. `type`: in
  // which magnitudes are kept, the accumulation type. What `parallel` refers to outlives this.
  AmaxHistory(Arena& arena, const nn::ParamList& params, const std::vector<nn::ParamId>& layers,
              const AmaxHistoryOptions& options, DType type, const parallel::ParallelContext& parallel);

  Place of(nn::ParamId weight, nn::Fp8Tensor tensor) override;

  // Nothing is known: the start of training.
  void reset(ops::OpContext& ops);
  // Brings together what ranks have seen, after the last backward pass of a step. Collective.
  void gather(ops::OpContext& ops);
  // Closes a step, once it is known whether it is skipped (`state`), or begins with a history that was read.
  void update(ops::OpContext& ops, TensorView state);

  // The histories as checkpoints have them, a tensor per layer: of its input, its weight and the gradient of
  // its output, [3, length], latest first. Named after the layer, whatever it fuses:
  // "fp8.amax/layers.0.attention.qkv".
  const std::vector<std::string>& names() const { return names_; }
  TensorView history(std::size_t layer);
  static TensorSpec spec(const nn::ParamSpec& matrix, std::int64_t length, DType type);
  // Whether this rank writes them to files: of a stage's ranks, which hold the same, the first does.
  bool writes() const;

 private:
  Arena* arena_;
  const parallel::ParallelContext& parallel_;
  const AmaxHistoryOptions options_;
  std::vector<std::string> names_;
  std::vector<int> layer_of_;  // by parameter; -1: none
  Arena::Id history_, amax_, seen_;
};

}  // namespace stoa::optim
