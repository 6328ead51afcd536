// Small element-by-element operations on contiguous tensors.
#pragma once

#include "ops/access.h"
#include "ops/norm.h"

namespace stoa::ops {

// y = x in y's type (rounding to nearest even).
struct Cast {
  static constexpr const char* kName = "cast";
  TensorView x, y;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// y = x + dropout(branch). y may be x. Rows [T, D] as in NormForward.
struct ResidualAdd {
  static constexpr const char* kName = "residual add";
  TensorView x, branch;
  Dropout dropout;
  TensorView y;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("branch", a.branch, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// dbranch = dropout'(dy): the backward of ResidualAdd with respect to its branch (with respect to x it is dy
// itself).
struct DropoutBackward {
  static constexpr const char* kName = "dropout backward";
  TensorView dy;
  Dropout dropout;
  TensorView dbranch;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("dbranch", a.dbranch, Access::kWrite);
  }
};

// y += x (main gradients: two accumulators of one tied weight, for example).
struct AddTo {
  static constexpr const char* kName = "add to";
  TensorView x, y;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("y", a.y, Access::kReadWrite);
  }
};

// y = a x + b y; y may be x.
struct Combine {
  static constexpr const char* kName = "combine";
  double a = 1, b = 1;
  TensorView x, y;  // one type, one shape

  template <class Self, class F>
  static void visit(Self& op, F&& f) {
    f("x", op.x, Access::kRead);
    f("y", op.y, Access::kReadWrite);
  }
};

// y[i] = x[index[i]], or x[i] without index: rows of matrices whose rows may be strided.
struct CopyRows {
  static constexpr const char* kName = "copy rows";
  TensorView x;      // [N, D]
  TensorView index;  // int32 [M], or none: M = N
  TensorView y;      // [M, D]
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("index", a.index, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

struct FillZero {
  static constexpr const char* kName = "fill zero";
  TensorView y;
  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("y", a.y, Access::kWrite);
  }
};

}  // namespace stoa::ops
