// How a linear layer is made: its pieces, and how a tensor-parallel group splits it (nn/linear.h).
#pragma once

#include <string>
#include <vector>

#include "nn/param.h"

namespace stoa::nn {

struct LinearPiece {
  std::string name;                        // canonical, without ".weight": "layers.0.attention.q"
  std::int64_t outputs = 0;                // canonical
  parallel::Part rows;                     // outputs held, where they are split
  std::int64_t padding = 0;                // rows of zeros that follow them in memory (a head's)
  bool shared = false, first_copy = true;  // as in ShardPiece: other ranks hold the same outputs
};

enum class LinearSplit : std::uint8_t { kWhole, kOutputs, kInputs };

struct LinearOptions {
  std::string name;         // of the fused tensor, without ".weight"
  std::int64_t inputs = 0;  // canonical
  std::vector<LinearPiece> pieces;
  bool bias = true;
  double deviation = 0.02;  // of the initial weights
  LinearSplit split = LinearSplit::kWhole;
  parallel::TensorPlace place;
  parallel::Part columns;  // inputs held, where they are split
};

}  // namespace stoa::nn
