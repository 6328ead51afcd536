#include "ops/check/check_backend.h"

namespace stoa::ops {

namespace {

Tolerance through(Tolerance base, DType inner) {
  base.inner = inner;
  return base;
}

}  // namespace

Tolerance tolerance_for(const AttentionForward& op, Tolerance base) { return through(base, op.q.dtype); }
Tolerance tolerance_for(const AttentionBackward& op, Tolerance base) {
  base.inner_ulps *= 2;
  return through(base, op.q.dtype);
}
Tolerance tolerance_for(const NormForward& op, Tolerance base) {
  return op.branch ? through(base, op.x.dtype) : base;
}
Tolerance tolerance_for(const NormBackward& op, Tolerance base) {
  return op.dbranch ? through(base, op.dx.dtype) : base;
}
Tolerance tolerance_for(const SumSquares&, Tolerance base) {
  // Sums of non-negative numbers in fp64: the error of n additions is at most n u, typically sqrt(n) u.
  base.sum_ulps *= 64;
  return base;
}

}  // namespace stoa::ops
