// Main gradients of a chunk: one accumulator per use of a parameter, in the accumulation type.
#pragma once

#include <vector>

#include "device/arena.h"
#include "nn/module.h"
#include "ops/op_context.h"

namespace stoa::optim {

class GradientStore final : public nn::GradAccess {
 public:
  GradientStore(Arena& arena, const nn::ParamList& params, nn::Precision precision);

  // The first write of a step overwrites: no pass over memory clears the accumulators.
  void begin_step();
  nn::GradTarget target(nn::GradId id) override;
  void notify(nn::GradId id) override;
  // After the last microbatch: accumulators that nothing wrote become zero, and the uses of a tied weight are
  // added, on one rank in order of declaration, else first pipeline stage + last. Parts that ranks of a
  // tensor-parallel group hold are added up, then the gradients of ranks that hold the same parameters.
  void finish(ops::OpContext& ops, const parallel::ParallelContext& parallel);

  // The whole gradient of a parameter, after finish().
  TensorView gradient(nn::ParamId id);

 private:
  Arena* arena_;
  const nn::ParamList* params_;
  std::vector<Arena::Id> accumulators_;  // by GradId
  std::vector<int> first_use_;           // by ParamId: GradId of the first accumulator
  std::vector<bool> written_;            // in this step
};

}  // namespace stoa::optim
