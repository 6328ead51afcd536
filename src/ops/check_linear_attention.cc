// Shape and type checks of the operations of linear attention.
#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {

namespace {

constexpr auto kRowStride = Layout::kStridedRows;

void check_texts(const Checker& c, const Sequences& texts) {
  c.that(texts.count >= 0, "there are {} texts, expected 0 or more", texts.count);
  c.tensor("begin", texts.begin, DType::kI32, "[texts + 1]", {-1});
  c.that(texts.begin.shape[0] > texts.count, "begin is {}, expected at least {} elements", texts.begin,
         texts.count + 1);
  c.that(texts.count == 0 || texts.longest > 0, "the longest text has {} tokens, expected a bound above 0",
         texts.longest);
}

template <class Op>
void check_convolution(const Checker& c, const Op& op) {
  check_texts(c, op.texts);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, C]", {-1, -1}, kRowStride);
  c.tensor("weight", op.weight, accumulation_type(op.x.dtype), "[C, K]", {op.x.shape[1], -1});
  c.that(op.weight.shape[1] > 0, "weight is {}, expected at least one weight per column", op.weight);
}

template <class Op>
void check_heads(const Checker& c, const Op& op) {
  check_texts(c, op.texts);
  c.tensor("q", op.q, TypeSet::any_float(), "[T, Hk, dk]", {-1, -1, -1}, kRowStride);
  const DType type = op.q.dtype, sum = accumulation_type(type);
  const std::int64_t tokens = op.q.rows();
  c.tensor("k", op.k, type, "shape of q", op.q.shape, kRowStride);
  c.tensor("v", op.v, type, "[T, Hv, dv]", {tokens, -1, -1}, kRowStride);
  const std::int64_t keys = op.q.shape[1], values = op.v.shape[1];
  c.that(keys > 0 && values > 0 && values % keys == 0,
         "there are {} value heads and {} key heads: expected a multiple of the number of key heads", values,
         keys);
  c.tensor("a", op.a, type, "[T, Hv]", {tokens, values}, kRowStride);
  c.tensor("b", op.b, type, "[T, Hv]", {tokens, values}, kRowStride);
  c.tensor("decay", op.decay, sum, "[Hv]", {values});
  c.tensor("bias", op.bias, sum, "[Hv]", {values});
}

}  // namespace

void check(const ShortConvForward& op) {
  const Checker c(op);
  check_convolution(c, op);
  if (c.optional("state", op.state, accumulation_type(op.x.dtype), "[texts, K - 1, C]",
                 {-1, op.weight.shape[1] - 1, op.x.shape[1]}))
    c.that(op.state.shape[0] >= op.texts.count, "state is {}, expected one of every of {} texts", op.state,
           op.texts.count);
  c.tensor("y", op.y, op.x.dtype, "shape of x", op.x.shape, kRowStride);
  c.apart("x", op.x, "y", op.y);
}

void check(const ShortConvBackward& op) {
  const Checker c(op);
  check_convolution(c, op);
  c.tensor("dy", op.dy, op.x.dtype, "shape of x", op.x.shape, kRowStride);
  c.tensor("dx", op.dx, op.x.dtype, "shape of x", op.x.shape, kRowStride);
  c.tensor("dweight", op.dweight, op.weight.dtype, "shape of weight", op.weight.shape);
  c.apart("x", op.x, "dx", op.dx);
  c.apart("dy", op.dy, "dx", op.dx);
}

void check(const GatedDeltaForward& op) {
  const Checker c(op);
  check_heads(c, op);
  if (c.optional("state", op.state, accumulation_type(op.q.dtype), "[texts, Hv, dk, dv]",
                 {-1, op.v.shape[1], op.q.shape[2], op.v.shape[2]}))
    c.that(op.state.shape[0] >= op.texts.count, "state is {}, expected one of every of {} texts", op.state,
           op.texts.count);
  c.tensor("o", op.o, op.q.dtype, "shape of v", op.v.shape, kRowStride);
}

void check(const GatedDeltaBackward& op) {
  const Checker c(op);
  check_heads(c, op);
  const DType type = op.q.dtype;
  c.tensor("dout", op.dout, type, "shape of v", op.v.shape, kRowStride);
  c.tensor("dq", op.dq, type, "shape of q", op.q.shape, kRowStride);
  c.tensor("dk", op.dk, type, "shape of q", op.q.shape, kRowStride);
  c.tensor("dv", op.dv, type, "shape of v", op.v.shape, kRowStride);
  c.tensor("da", op.da, type, "shape of a", op.a.shape, kRowStride);
  c.tensor("db", op.db, type, "shape of a", op.a.shape, kRowStride);
  c.tensor("ddecay", op.ddecay, op.decay.dtype, "[Hv]", op.decay.shape);
  c.tensor("dbias", op.dbias, op.decay.dtype, "[Hv]", op.decay.shape);
  c.apart("dout", op.dout, "dv", op.dv);
}

}  // namespace stoa::ops
