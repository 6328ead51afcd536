// Holds the values of a chunk's parameters: in compute precision for the layers, in fp32 for the optimizer.
#pragma once

#include <vector>

#include "device/arena.h"
#include "nn/module.h"

namespace stoa::optim {

// Every rank holds every parameter whole (ZeRO stages 0 to 2 of the parameters). Matrices are held in compute
// precision with an fp32 master beside them; where the two types are one, and for vectors, the value is its
// own master.
class ParameterStore final : public nn::ParamAccess {
 public:
  // With masters = false (inference) only compute values exist.
  ParameterStore(Arena& arena, const std::vector<nn::ParamSpec>& specs, nn::Precision precision,
                 bool masters);

  TensorView get(nn::ParamId id) override;
  TensorView master(nn::ParamId id);  // accumulation type
  bool has_separate_master(nn::ParamId id) const { return static_cast<bool>(masters_[id.index]); }

  const std::vector<nn::ParamSpec>& specs() const { return *specs_; }

 private:
  Arena* arena_;
  const std::vector<nn::ParamSpec>* specs_;
  std::vector<Arena::Id> values_, masters_;
};

}  // namespace stoa::optim
