// Rows and columns of matrices times factors, and norms of rows: what weights that are split into magnitude
// and direction need (DoRA, 2402.09353).
#pragma once

#include "ops/access.h"

namespace stoa::ops {

// y = diag(rows) x diag(columns) + bias; y += that with `accumulate`. Factors that are none are 1.
struct ScaleMatrix {
  static constexpr const char* kName = "scale matrix";
  TensorView x;        // [T, N]; rows may be strided
  TensorView rows;     // [T] accumulation type, or none
  TensorView columns;  // [N] accumulation type, or none
  TensorView bias;     // [N] accumulation type, or none
  TensorView y;        // [T, N]; rows may be strided; may be x where it does not accumulate
  bool accumulate = false;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("rows", a.rows, Access::kRead);
    f("columns", a.columns, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("y", a.y, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// dcolumns = sum over the rows of x * dy; their order does not depend on the number of threads. The gradient
// of x is a ScaleMatrix of dy.
struct ScaleMatrixBackward {
  static constexpr const char* kName = "scale matrix backward";
  TensorView x, dy;        // [T, N]; rows may be strided
  TensorView dcolumns;     // [N] accumulation type
  bool accumulate = true;  // dcolumns += instead of =

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("dcolumns", a.dcolumns, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// out[i] = x[i] . y[i].
struct RowDots {
  static constexpr const char* kName = "row dots";
  TensorView x, y;          // [R, C]; rows may be strided; may be one tensor
  TensorView out;           // [R] accumulation type
  bool accumulate = false;  // out += instead of =

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kRead);
    f("out", a.out, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// y = 1 / sqrt(x), and 0 where x is 0 or, by rounding, less.
struct InverseRoot {
  static constexpr const char* kName = "inverse root";
  TensorView x, y;  // fp32 or fp64, one shape; may be one tensor

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

}  // namespace stoa::ops
