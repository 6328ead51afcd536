// Shape and type checks of the operations of ops/fp8.h.
#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {

void check(const AbsoluteMax& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, C]", {-1, -1}, Layout::kStridedRows);
  c.tensor("amax", op.amax, accumulation_type(op.x.dtype), "[1]", {1});
}

void check(const Quantize& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, C]", {-1, -1}, Layout::kStridedRows);
  const std::int64_t rows = op.x.shape[0], columns = op.x.shape[1];
  const DType sum = accumulation_type(op.x.dtype);
  c.tensor("amax", op.amax, sum, "[1]", {1});
  const bool plain = c.optional("y", op.y, TypeSet::fp8(), "[R, C]", {rows, columns});
  c.optional("transposed", op.transposed, plain ? TypeSet(op.y.dtype) : TypeSet::fp8(), "[C, padded R]",
             {columns, Quantize::padded(rows)});
  c.tensor("inverse_scale", op.inverse_scale, sum, "[1]", {1});
  if (c.optional("seen", op.seen, sum, "[1]", {1})) c.apart("seen", op.seen, "amax", op.amax);
  c.that(op.margin >= 0 && op.margin <= 64, "margin is {}, expected 0 to 64", op.margin);
}

namespace {

void check_groups(const Checker& c, const TensorView& ids, std::int64_t rows, std::int64_t groups) {
  if (c.optional("groups", ids, DType::kI32, "int32 [T, k]", {-1, -1}))
    c.that(ids.elements() == rows, "groups is {}, expected one id per row of {}", ids, rows);
  else
    c.that(groups > 0 && rows % groups == 0, "{} rows in {} equal groups", rows, groups);
}

}  // namespace

void check(const GroupedAbsoluteMax& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, C]", {-1, -1});
  c.tensor("amax", op.amax, accumulation_type(op.x.dtype), "[G]", {-1});
  check_groups(c, op.groups, op.x.shape[0], op.amax.shape[0]);
}

void check(const GroupedQuantize& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, C]", {-1, -1});
  const DType sum = accumulation_type(op.x.dtype);
  c.tensor("amax", op.amax, sum, "[G]", {-1}, Layout::kStridedRows);
  check_groups(c, op.groups, op.x.shape[0], op.amax.shape[0]);
  c.tensor("y", op.y, TypeSet::fp8(), "[R, C]", op.x.shape);
  c.tensor("inverse_scale", op.inverse_scale, sum, "[G]", op.amax.shape);
  if (c.optional("seen", op.seen, sum, "[G]", op.amax.shape, Layout::kStridedRows))
    c.apart("seen", op.seen, "amax", op.amax);
  c.that(op.margin >= 0 && op.margin <= 64, "margin is {}, expected 0 to 64", op.margin);
}

void check(const ScaledProduct& op) {
  const Checker c(op);
  c.tensor("a", op.a, TypeSet::fp8(), "[M, K]", {-1, -1});
  c.tensor("b", op.b, op.a.dtype == DType::kE5M2 ? TypeSet(DType::kE4M3) : TypeSet::fp8(), "[N, K]",
           {-1, op.a.shape[1]});
  const std::int64_t m = op.a.shape[0], n = op.b.shape[0], k = op.a.shape[1];
  c.that(n % ScaledProduct::kMultiple == 0 && k % ScaledProduct::kMultiple == 0,
         "a is {} and b is {}, expected multiples of {} for N and K", op.a, op.b, ScaledProduct::kMultiple);
  c.tensor("out", op.out, TypeSet::any_float(), "[M, N]", {m, n}, Layout::kStridedRows);
  const DType sum = accumulation_type(op.out.dtype);
  c.tensor("inverse_a", op.inverse_a, sum, "[1]", {1});
  c.tensor("inverse_b", op.inverse_b, sum, "[1]", {1});
  if (op.accumulate)
    c.none("bias", op.bias, "where the product is accumulated");
  else
    c.optional("bias", op.bias, sum, "[N]", {n});
}

void check(const BiasBackward& op) {
  const Checker c(op);
  c.tensor("dy", op.dy, TypeSet::any_float(), "[T, N]", {-1, -1}, Layout::kStridedRows);
  c.tensor("dbias", op.dbias, accumulation_type(op.dy.dtype), "[N]", {op.dy.shape[1]});
}

}  // namespace stoa::ops
