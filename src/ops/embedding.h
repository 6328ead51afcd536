// Lookup of token embeddings, with learned position embeddings added and dropout applied.
#pragma once

#include "ops/access.h"
#include "ops/norm.h"

namespace stoa::ops {

struct EmbeddingForward {
  static constexpr const char* kName = "embedding forward";
  TensorView tokens;          // int32 [T]; ids are checked by the data layer
  TensorView table;           // [V, D]
  TensorView positions;       // int32 [T] or none
  TensorView position_table;  // [P, D] or none
  Dropout dropout;
  TensorView y;  // [T, D]; its type may be wider than the table's
  // A part of a table: row 0 is id `first_id` of a vocabulary of `vocabulary` ids. Rows of y whose token is
  // in a different part are zero, without position: the sum over the parts is the result for the whole table.
  // vocabulary 0: the table is whole.
  std::int64_t first_id = 0, vocabulary = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("tokens", a.tokens, Access::kRead);
    f("table", a.table, Access::kRead);
    f("positions", a.positions, Access::kRead);
    f("position_table", a.position_table, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// Adds to the main gradients; gradients of the same id are added in token order.
struct EmbeddingBackward {
  static constexpr const char* kName = "embedding backward";
  TensorView tokens;
  TensorView positions;
  Dropout dropout;
  TensorView dy;               // [T, D]
  TensorView dtable;           // [V, D] accumulation type, +=
  TensorView dposition_table;  // [P, D] accumulation type, += ; or none
  // A part of a table, as in forward: tokens of other parts are ignored. Positions are those of all tokens.
  std::int64_t first_id = 0, vocabulary = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("tokens", a.tokens, Access::kRead);
    f("positions", a.positions, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dtable", a.dtable, Access::kReadWrite);
    f("dposition_table", a.dposition_table, Access::kReadWrite);
  }
};

}  // namespace stoa::ops
