// Shape and type checks of the layers' operations; those of attention stand in check_attention.cc.
#include "ops/all.h"
#include "ops/checker.h"
#include "ops/token_draw.h"

namespace stoa::ops {

namespace {

constexpr auto kRowsApart = Layout::kStridedRows;

void check_dropout(const Checker& c, const Dropout& dropout) {
  c.probability("dropout", static_cast<double>(dropout.p));
  c.that(dropout.first_token >= 0, "first token of the dropout mask is {}, expected 0 or more",
         dropout.first_token);
}

// Rows of an embedding table within the vocabulary.
template <class Op>
void check_part(const Checker& c, const Op& op, const TensorView& table) {
  c.that(op.vocabulary == 0 ? op.first_id == 0
                            : op.first_id >= 0 && op.first_id + table.shape[0] <= op.vocabulary,
         "the table {} holds ids from {} of a vocabulary of {}: expected a part of it, or 0 and 0", table,
         op.first_id, op.vocabulary);
}

// [T, D] or [T, G, D]
void check_norm_input(const Checker& c, const TensorView& x, const TensorView& gamma) {
  const std::int64_t d = is_given(gamma) ? gamma.elements() : x.shape.back();
  c.that(d > 0, "gamma is {}, expected at least one element", gamma);
  if (x.shape.rank() == 3) {
    c.tensor("x", x, TypeSet::any_float(), "[T, G, D]", {-1, -1, d}, kRowsApart);
  } else {
    c.tensor("x", x, TypeSet::any_float(), "[T, D] or [T, G, D]", {-1, d}, kRowsApart);
  }
  c.optional("gamma", gamma, accumulation_type(x.dtype), "[D]", {d});
}

void check_both_or_none(const Checker& c, const char* name, const TensorView& tensor, const char* other_name,
                        const TensorView& other) {
  c.that(is_given(tensor) == is_given(other), "{} {} and {} {}: expected both or none", name, tensor,
         other_name, other);
}

}  // namespace

void check(const LinearForward& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, K]", {-1, -1}, kRowsApart);
  const DType type = op.x.dtype, sum = accumulation_type(type);
  c.tensor("w", op.w, type, "[N, K]", {-1, op.x.shape[1]});
  c.optional("bias", op.bias, sum, "[N]", {op.w.shape[0]});
  c.tensor("y", op.y, TypeSet(type) | sum, "[T, N]", {op.x.shape[0], op.w.shape[0]}, kRowsApart);
  c.apart("x", op.x, "y", op.y);
  check_both_or_none(c, "x2", op.x2, "w2", op.w2);
  if (!c.optional("x2", op.x2, type, "[T, R]", {op.x.shape[0], -1}, kRowsApart)) return;
  c.tensor("w2", op.w2, type, "[N, R]", {op.w.shape[0], op.x2.shape[1]});
  c.apart("x2", op.x2, "y", op.y);
}

void check(const LinearBackwardInput& op) {
  const Checker c(op);
  c.tensor("dy", op.dy, TypeSet::any_float(), "[T, N]", {-1, -1}, kRowsApart);
  c.tensor("w", op.w, op.dy.dtype, "[N, K]", {op.dy.shape[1], -1});
  c.tensor("dx", op.dx, op.dy.dtype, "[T, K]", {op.dy.shape[0], op.w.shape[1]}, kRowsApart);
  c.apart("dy", op.dy, "dx", op.dx);
  check_both_or_none(c, "dy2", op.dy2, "w2", op.w2);
  if (!c.optional("dy2", op.dy2, op.dy.dtype, "[T, R]", {op.dy.shape[0], -1}, kRowsApart)) return;
  c.tensor("w2", op.w2, op.dy.dtype, "[R, K]", {op.dy2.shape[1], op.w.shape[1]});
  c.apart("dy2", op.dy2, "dx", op.dx);
}

void check(const LinearBackwardWeight& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, K]", {-1, -1}, kRowsApart);
  const DType sum = accumulation_type(op.x.dtype);
  c.tensor("dy", op.dy, op.x.dtype, "[T, N]", {op.x.shape[0], -1}, kRowsApart);
  c.tensor("dw", op.dw, sum, "[N, K]", {op.dy.shape[1], op.x.shape[1]});
  c.optional("dbias", op.dbias, sum, "[N]", {op.dy.shape[1]});
}

void check(const PackedLinearForward& op) {
  const Checker c(op);
  const auto& s = op.shape;
  c.tensor("x", op.x, TypeSet::any_float(), "[T, K]", {-1, s.columns}, kRowsApart);
  const DType type = op.x.dtype, sum = accumulation_type(type);
  c.tensor("w", op.w, DType::kU8, "[bytes]", {static_cast<std::int64_t>(s.bytes())});
  c.optional("bias", op.bias, sum, "[N]", {s.rows});
  c.tensor("y", op.y, TypeSet(type) | sum, "[T, N]", {op.x.shape[0], s.rows}, kRowsApart);
  c.apart("x", op.x, "y", op.y);
}

void check(const PackedLinearBackwardInput& op) {
  const Checker c(op);
  const auto& s = op.shape;
  c.tensor("dy", op.dy, TypeSet::any_float(), "[T, N]", {-1, s.rows}, kRowsApart);
  c.tensor("w", op.w, DType::kU8, "[bytes]", {static_cast<std::int64_t>(s.bytes())});
  c.tensor("dx", op.dx, op.dy.dtype, "[T, K]", {op.dy.shape[0], s.columns}, kRowsApart);
  c.apart("dy", op.dy, "dx", op.dx);
}

void check(const QuantisedLinear& op) {
  const Checker c(op);
  const auto& s = op.shape;
  c.tensor("x", op.x, TypeSet::any_float(), "[T, K]", {-1, s.columns}, kRowsApart);
  const DType type = op.x.dtype, sum = accumulation_type(type);
  c.tensor("w", op.w, DType::kU8, "[bytes]", {s.bytes()});
  c.optional("bias", op.bias, sum, "[N]", {s.rows()});
  c.tensor("y", op.y, TypeSet(type) | sum, "[T, N]", {op.x.shape[0], s.rows()}, kRowsApart);
  c.apart("x", op.x, "y", op.y);
}

void check(const MostLikely& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, DType::kF32, "[T, V]", {-1, -1}, kRowsApart);
  c.that(op.logits.shape[1] > 0, "logits are {}, expected at least one column", op.logits);
  c.tensor("found", op.found, DType::kI32, "[T, 2]", {op.logits.shape[0], 2});
}

void check(const DrawTokens& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, DType::kF32, "[T, V]", {-1, -1}, kRowsApart);
  c.that(op.logits.shape[1] > 0, "logits are {}, expected at least one column", op.logits);
  c.tensor("draws", op.draws, DType::kI32, "[D, 8]", {-1, kTokenDrawWords});
  c.tensor("found", op.found, DType::kI32, "[D, 2]", {op.draws.shape[0], 2});
}

void check(const QuantisedRows& op) {
  const Checker c(op);
  c.tensor("tokens", op.tokens, DType::kI32, "[T]", {-1});
  c.tensor("w", op.w, DType::kU8, "[bytes]", {op.shape.bytes()});
  c.tensor("y", op.y, TypeSet::any_float(), "[T, D]", {op.tokens.shape[0], op.shape.columns}, kRowsApart);
}

void check(const NormForward& op) {
  const Checker c(op);
  check_norm_input(c, op.x, op.gamma);
  const DType type = op.x.dtype, sum = accumulation_type(type);
  const std::int64_t d = op.x.shape.back();
  if (c.optional("branch", op.branch, TypeSet::floats_like(type), "[T, D]", {op.x.shape[0], d})) {
    c.that(op.x.shape.rank() == 2, "x is {}, expected [T, D] where a branch is added", op.x);
    c.tensor("sum", op.sum, type, "[T, D]", {op.x.shape[0], d});
    check_dropout(c, op.dropout);
  } else {
    c.none("sum", op.sum, "where there is no branch");
  }
  if (c.optional("beta", op.beta, sum, "[D]", {d}))
    c.that(op.kind == NormKind::kLayerNorm, "beta is {}, expected none for RMSNorm", op.beta);
  c.tensor("y", op.y, TypeSet::floats_like(type), "shape of x", op.x.shape, kRowsApart);
  c.optional("stats", op.stats, sum, "[rows, 2]", {op.x.elements() / d, 2});
  c.that(op.epsilon > 0, "epsilon is {}, expected above 0", op.epsilon);
}

void check(const NormBackward& op) {
  const Checker c(op);
  check_norm_input(c, op.x, op.gamma);
  const DType type = op.x.dtype, sum = accumulation_type(type);
  const std::int64_t d = op.x.shape.back();
  c.tensor("stats", op.stats, sum, "[rows, 2]", {op.x.elements() / d, 2});
  c.tensor("dy", op.dy, TypeSet::floats_like(type), "shape of x", op.x.shape, kRowsApart);
  c.optional("dresidual", op.dresidual, type, "shape of x", op.x.shape, kRowsApart);
  c.tensor("dx", op.dx, type, "shape of x", op.x.shape, kRowsApart);
  if (c.optional("dbranch", op.dbranch, op.dy.dtype, "[T, D]", {op.x.shape[0], d})) {
    c.that(op.x.shape.rank() == 2, "x is {}, expected [T, D] where there is a branch", op.x);
    check_dropout(c, op.dropout);
  }
  c.that(is_given(op.gamma) == is_given(op.dgamma), "gamma {} and dgamma {}: expected both or none", op.gamma,
         op.dgamma);
  c.optional("dgamma", op.dgamma, sum, "[D]", {d});
  if (c.optional("dbeta", op.dbeta, sum, "[D]", {d}))
    c.that(op.kind == NormKind::kLayerNorm, "dbeta is {}, expected none for RMSNorm", op.dbeta);
}

void check(const ActivationForward& op) {
  const Checker c(op);
  c.that(op.gated || op.kind != ActivationKind::kClampedSwiglu,
         "clamped swiglu is gated, expected [gate | up]");
  c.tensor("x", op.x, TypeSet::any_float(), op.gated ? "[T, 2F]" : "[T, F]", {-1, -1});
  c.that(!op.gated || op.x.shape[1] % 2 == 0, "x is {}, expected an even number of columns [gate | up]",
         op.x);
  c.tensor("y", op.y, op.x.dtype, "[T, F]", {op.x.shape[0], op.gated ? op.x.shape[1] / 2 : op.x.shape[1]});
  if (op.gated) c.apart("x", op.x, "y", op.y);
}

void check(const ActivationBackward& op) {
  const Checker c(op);
  c.that(op.gated || op.kind != ActivationKind::kClampedSwiglu,
         "clamped swiglu is gated, expected [gate | up]");
  c.tensor("x", op.x, TypeSet::any_float(), op.gated ? "[T, 2F]" : "[T, F]", {-1, -1});
  c.that(!op.gated || op.x.shape[1] % 2 == 0, "x is {}, expected an even number of columns [gate | up]",
         op.x);
  c.tensor("dy", op.dy, op.x.dtype, "[T, F]", {op.x.shape[0], op.gated ? op.x.shape[1] / 2 : op.x.shape[1]});
  c.tensor("dx", op.dx, op.x.dtype, "shape of x", op.x.shape);
  if (op.gated) c.apart("dy", op.dy, "dx", op.dx);
}

void check(const EmbeddingForward& op) {
  const Checker c(op);
  c.tensor("tokens", op.tokens, DType::kI32, "[T]", {-1});
  c.tensor("table", op.table, TypeSet::any_float(), "[V, D]", {-1, -1});
  const std::int64_t tokens = op.tokens.shape[0], d = op.table.shape[1];
  c.that(is_given(op.positions) == is_given(op.position_table),
         "positions {} and position_table {}: expected both or none",
         is_given(op.positions) ? "given" : "none", is_given(op.position_table) ? "given" : "none");
  c.optional("positions", op.positions, DType::kI32, "[T]", {tokens});
  c.optional("position_table", op.position_table, op.table.dtype, "[P, D]", {-1, d});
  check_dropout(c, op.dropout);
  c.tensor("y", op.y, TypeSet::floats_like(op.table.dtype), "[T, D]", {tokens, d});
  check_part(c, op, op.table);
}

void check(const EmbeddingBackward& op) {
  const Checker c(op);
  c.tensor("tokens", op.tokens, DType::kI32, "[T]", {-1});
  c.tensor("dy", op.dy, TypeSet::any_float(), "[T, D]", {op.tokens.shape[0], -1});
  const DType sum = accumulation_type(op.dy.dtype);
  const std::int64_t d = op.dy.shape[1];
  c.tensor("dtable", op.dtable, sum, "[V, D]", {-1, d});
  if (c.optional("dposition_table", op.dposition_table, sum, "[P, D]", {-1, d}))
    c.tensor("positions", op.positions, DType::kI32, "[T]", {op.tokens.shape[0]});
  check_dropout(c, op.dropout);
  check_part(c, op, op.dtable);
}

void check(const Cast& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "any shape", op.x.shape);
  c.tensor("y", op.y, TypeSet::any_float(), "shape of x", op.x.shape);
}

void check(const ResidualAdd& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, D]", {-1, -1});
  c.tensor("branch", op.branch, TypeSet::floats_like(op.x.dtype), "shape of x", op.x.shape);
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape);
  check_dropout(c, op.dropout);
}

void check(const DropoutBackward& op) {
  const Checker c(op);
  c.tensor("dy", op.dy, TypeSet::any_float(), "[T, D]", {-1, -1});
  c.tensor("dbranch", op.dbranch, TypeSet::floats_like(op.dy.dtype), "shape of dy", op.dy.shape);
  check_dropout(c, op.dropout);
}

void check(const AddTo& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "any shape", op.x.shape);
  c.tensor("y", op.y, TypeSet::floats_like(op.x.dtype), "shape of x", op.x.shape);
}

void check(const Combine& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "any shape", op.x.shape);
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape);
}

void check(const CopyRows& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float() | DType::kI32, "[N, D]", {-1, -1}, kRowsApart);
  const bool indexed = c.optional("index", op.index, DType::kI32, "[M]", {-1});
  c.tensor("y", op.y, op.x.dtype, "[M, D]", {indexed ? op.index.shape[0] : op.x.shape[0], op.x.shape[1]},
           kRowsApart);
  c.apart("x", op.x, "y", op.y);
}

void check(const FillZero& op) {
  const Checker c(op);
  c.tensor("y", op.y, TypeSet::any(), "any shape", op.y.shape);
}

void check(const ScaleMatrix& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, N]", {-1, -1}, kRowsApart);
  const DType sum = accumulation_type(op.x.dtype);
  c.optional("rows", op.rows, sum, "[T]", {op.x.rows()});
  c.optional("columns", op.columns, sum, "[N]", {op.x.shape[1]});
  c.optional("bias", op.bias, sum, "[N]", {op.x.shape[1]});
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape, kRowsApart);
}

void check(const ScaleMatrixBackward& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, N]", {-1, -1}, kRowsApart);
  c.tensor("dy", op.dy, op.x.dtype, "shape of x", op.x.shape, kRowsApart);
  c.tensor("dcolumns", op.dcolumns, accumulation_type(op.x.dtype), "[N]", {op.x.shape[1]});
}

void check(const RowDots& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, C]", {-1, -1}, kRowsApart);
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape, kRowsApart);
  c.tensor("out", op.out, accumulation_type(op.x.dtype), "[R]", {op.x.rows()});
}

void check(const InverseRoot& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet(DType::kF32) | DType::kF64, "[N]", {-1});
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape);
}

}  // namespace stoa::ops
