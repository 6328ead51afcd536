// What adapters add to layers: asked by each layer as it declares its parameters (ParamList::adapters). Which
// layers are adapted, and how, is decided in one place (model/adapter_plan.h).
#pragma once

#include <string>
#include <vector>

#include "nn/param.h"

namespace stoa::nn {

// A low-rank branch of a linear layer (LoRA, 2106.09685): y += scale B A dropout(x).
struct LowRankBranch {
  std::string name;                 // of A [rank, inputs], without ".lora_A.weight"
  std::vector<std::string> pieces;  // whose outputs it adds to: neighbours in the layer; each has rows of B
  std::int64_t rank = 0;
  double scale = 1;
  float dropout = 0;  // of the branch's input
  ParamInit init;     // of A; B is zero
  double b_rate = 1;  // learning rate of B, relative to that of A (LoRA+, 2402.12354)
};

class AdapterPolicy {
 public:
  virtual ~AdapterPolicy() = default;
  // The branches of the linear layer that consists of `pieces` (canonical names without ".weight"), in the
  // order of their pieces.
  virtual std::vector<LowRankBranch> branches(const std::vector<std::string>& pieces) const = 0;
};

}  // namespace stoa::nn
