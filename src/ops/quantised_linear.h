// Linear layers whose matrix is in the numbers of a quantised file (quant/matrix_layout.h), for inference:
// there is no backward pass.
//
// The input is rounded to 12 bits first: 64 neighbours of a row have a scale and codes of two parts, coarse
// and fine (ops/quantised_codes.h). Products of codes are exact integers; the sums of 32 (16 where these have
// a scale each) are scaled by the weights' scale and added in fp32, those of 64 then scaled by the input's
// and added, in an order that the number of columns decides: a row of y has the same bits whatever other rows
// there are.
#pragma once

#include "ops/access.h"
#include "quant/matrix_layout.h"

namespace stoa::ops {

// y = x W^T + b.
struct QuantisedLinear {
  static constexpr const char* kName = "quantised linear";
  TensorView x;              // [T, K] fp32, bf16, fp16; rows may be strided
  TensorView w;              // u8 [shape.bytes()]
  quant::MatrixShape shape;  // [N, K]
  TensorView bias;           // [N] fp32, or none
  TensorView y;              // [T, N]; rows may be strided; its type may also be fp32

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("w", a.w, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// The linear layers of experts: rows of x are sorted by expert (ops/moe.h), and the matrices of all experts,
// of one shape, are one below the other. Rows without an expert (-1) are neither read nor written.
struct GroupedQuantisedLinear {
  static constexpr const char* kName = "grouped quantised linear";
  TensorView x;               // [R, K] fp32, bf16, fp16
  TensorView w;               // u8 [E shape.bytes()]
  quant::MatrixShape shape;   // [N, K] of one expert
  TensorView sorted_experts;  // int32 [T, k], of as many elements as x has rows
  TensorView y;               // [R, N]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("w", a.w, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("y", a.y, Access::kWrite);
  }

  // Rows [begin, end), all of one expert, as a layer of their own.
  QuantisedLinear of_expert(std::int64_t expert, std::int64_t begin, std::int64_t end) const {
    return {x.slice(begin, end - begin),
            w.slice(expert * shape.bytes(), shape.bytes()),
            shape,
            {},
            y.slice(begin, end - begin)};
  }
};

// Rows of the matrix, as what they stand for: embeddings of tokens.
struct QuantisedRows {
  static constexpr const char* kName = "quantised rows";
  TensorView tokens;         // int32 [T]; rows of y whose token is no row of the matrix are zero
  TensorView w;              // as above
  quant::MatrixShape shape;  // [V, D]
  TensorView y;              // [T, D] fp32, bf16, fp16; rows may be strided

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("tokens", a.tokens, Access::kRead);
    f("w", a.w, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

}  // namespace stoa::ops
