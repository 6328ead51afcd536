// Weight gradients of experts whose rows come in parts (nn/expert_parts.h): the same bits as of all rows at
// once. The sum of an expert whose rows are in several parts is carried from one to the next in scratch.
#pragma once

#include "nn/expert_parts.h"
#include "nn/module.h"

namespace stoa::nn {

// What is multiplied: dw of an expert += dy^T x over its rows.
struct GroupedRows {
  TensorView x, dy;   // [F, K], [F, N]
  TensorView sorted;  // int32 [F, 1]: the expert of each row, in order
};

struct GradientPart {
  std::int64_t rows = 0;  // that came, the first of F
  RowCut cut;
  bool begins = false;  // the first part
};

// Memory for the sum of one expert, [N, K] of a parameter [E N, K]; none if that is not trained.
TensorView carry_of(Pass& pass, const Param& matrices, std::int64_t outputs);

// Adds a part to the main gradient, if the parameter is trained. After the last, notify_gradient().
void add_gradient_part(Pass& pass, const Param& matrices, const GroupedRows& rows, const GradientPart& part,
                       TensorView carry);

void notify_gradient(Pass& pass, const Param& matrices);

}  // namespace stoa::nn
