// Shape and type checks of the operations of a mixture of experts.
#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {
namespace {

std::int64_t check_assignments(const Checker& c, const char* name, const TensorView& ids, std::int64_t rows) {
  c.tensor(name, ids, DType::kI32, "int32 [T, k]", {-1, -1});
  c.that(ids.elements() == rows, "{} is {}, expected one id per row of {}", name, ids, rows);
  return ids.elements();
}

void check_router(const Checker& c, const RouterOptions& o, std::int64_t experts, std::int64_t chosen) {
  c.that(chosen >= 1 && chosen <= experts, "{} of {} experts are chosen, expected 1 to {}", chosen, experts,
         experts);
  c.that(o.groups >= 1 && experts % o.groups == 0, "{} experts in {} groups: expected a divisor", experts,
         o.groups);
  c.that(o.chosen_groups >= 1 && o.chosen_groups <= o.groups, "{} of {} groups are chosen", o.chosen_groups,
         o.groups);
  c.that(chosen <= experts / o.groups * o.chosen_groups, "{} experts are chosen from {} groups of {}", chosen,
         o.chosen_groups, experts / o.groups);
}

void check_sequences(const Checker& c, const TokenSequences& s) {
  c.that(s.count > 0 && s.run > 0 && s.first >= 0, "tokens from {} in runs of {} of {} sequences", s.first,
         s.run, s.count);
}

}  // namespace

void check(const RouterForward& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, TypeSet(DType::kF32) | DType::kF64, "[T, E]", {-1, -1});
  const std::int64_t tokens = op.logits.shape[0], experts = op.logits.shape[1];
  c.optional("bias", op.bias, op.logits.dtype, "[E]", {experts});
  c.tensor("experts", op.experts, DType::kI32, "[T, k]", {tokens, -1});
  c.tensor("weights", op.weights, op.logits.dtype, "[T, k]", op.experts.shape);
  check_router(c, op.options, experts, op.experts.shape[1]);
}

void check(const CountAssignments& op) {
  const Checker c(op);
  c.tensor("experts", op.experts, DType::kI32, "[T, k]", {-1, -1});
  c.tensor("counts", op.counts, TypeSet(DType::kF32) | DType::kF64, "[S, E]", {op.sequences.count, -1});
  check_sequences(c, op.sequences);
}

namespace {

void check_places(const Checker& c, const TokenPlaces& p, std::int64_t tokens, const TensorView& choices,
                  std::int64_t chosen) {
  check_sequences(c, p.sequences);
  c.that(p.length > 0, "sequences of {} tokens", p.length);
  c.that(tokens == 0 || (p.sequences.first + tokens - 1) / p.sequences.run / p.sequences.count < 2,
         "{} tokens from {} in runs of {} of {} sequences: expected two runs of each at most", tokens,
         p.sequences.first, p.sequences.run, p.sequences.count);
  c.tensor("choices", choices, TypeSet(DType::kF32) | DType::kF64, "[S L, 2 k]",
           {p.sequences.count * p.length, 2 * chosen});
}

}  // namespace

void check(const PlaceChoices& op) {
  const Checker c(op);
  c.tensor("experts", op.experts, DType::kI32, "[T, k]", {-1, -1});
  c.tensor("weights", op.weights, TypeSet(DType::kF32) | DType::kF64, "[T, k]", op.experts.shape);
  check_places(c, op.places, op.experts.shape[0], op.choices, op.experts.shape[1]);
}

void check(const LimitExperts& op) {
  const Checker c(op);
  c.tensor("kept", op.kept, DType::kI32, "[T, k]", {-1, -1});
  check_places(c, op.places, op.kept.shape[0], op.choices, op.kept.shape[1]);
  c.that(op.capacity > 0, "a capacity of {}", op.capacity);
}

void check(const RouterBackward& op) {
  const Checker c(op);
  c.tensor("logits", op.logits, TypeSet(DType::kF32) | DType::kF64, "[T, E]", {-1, -1});
  const std::int64_t tokens = op.logits.shape[0];
  c.tensor("experts", op.experts, DType::kI32, "[T, k]", {tokens, -1});
  c.tensor("dweights", op.dweights, op.logits.dtype, "[T, k]", op.experts.shape);
  c.tensor("dlogits", op.dlogits, op.logits.dtype, "[T, E]", op.logits.shape);
  check_router(c, op.options, op.logits.shape[1], op.experts.shape[1]);
  if (op.balance == 0 && op.z == 0) return;
  c.that(is_given(op.state), "state is none, expected the step scalars where the router has losses");
  if (op.balance == 0) return;
  c.that(op.length > 0, "sequences of {} tokens", op.length);
  check_sequences(c, op.sequences);
  c.tensor("counts", op.counts, op.logits.dtype, "[S, E]", {op.sequences.count, op.logits.shape[1]});
}

void check(const GroupByExpert& op) {
  const Checker c(op);
  const auto& m = op.members;
  c.that(op.expert_count > 0, "{} experts", op.expert_count);
  c.that(m.copies > 0 && m.members % m.copies == 0 && op.expert_count % (m.members / m.copies) == 0 &&
             m.self >= 0 && m.self < m.members,
         "{} experts of which members {} in {} copies have as many each, seen from member {}",
         op.expert_count, m.members, m.copies, m.self);
  c.tensor("experts", op.experts, DType::kI32, "[T, k]", {-1, -1});
  const Shape grouped{op.experts.shape[0], op.experts.shape[1] * m.copies};
  c.tensor("order", op.order, DType::kI32, "[T, k C]", grouped);
  c.tensor("place", op.place, DType::kI32, "[T, k C]", grouped);
  c.that(m.members == 1 || !is_given(op.sorted_experts),
         "sorted_experts are given, expected counts of {} members", m.members);
  if (is_given(op.sorted_experts))
    c.tensor("sorted_experts", op.sorted_experts, DType::kI32, "[T, k]", op.experts.shape);
  else
    c.tensor("counts", op.counts, DType::kI32, "[members, M]", {m.members, m.experts_each(op.expert_count)});
}

void check(const GroupArrivals& op) {
  const Checker c(op);
  c.tensor("counts", op.counts, DType::kI32, "[members, M]", {-1, -1});
  c.that(op.self >= 0 && op.self < op.counts.shape[0], "member {} of {}", op.self, op.counts.shape[0]);
  c.tensor("order", op.order, DType::kI32, "[F, 1]", {-1, 1});
  c.tensor("place", op.place, DType::kI32, "[F, 1]", op.order.shape);
  c.tensor("sorted_experts", op.sorted_experts, DType::kI32, "[F, 1]", op.order.shape);
}

void check(const GatherRows& op) {
  const Checker c(op);
  c.tensor("order", op.order, DType::kI32, "[T, k]", {-1, op.k ? 1 : -1});
  c.tensor("x", op.x, TypeSet::any_float(), "[T, D]", {op.k ? -1 : op.order.shape[0], -1});
  c.tensor("y", op.y, op.x.dtype, "[R, D]", {op.order.elements(), op.x.shape[1]});
  c.apart("x", op.x, "y", op.y);
}

void check(const SumRows& op) {
  const Checker c(op);
  c.tensor("place", op.place, DType::kI32, "[T, k]", {-1, -1});
  c.tensor("x", op.x, TypeSet::any_float(), "[T k, D]", {op.place.elements(), -1});
  c.tensor("y", op.y, op.x.dtype, "[T, D]", {op.place.shape[0], op.x.shape[1]});
  c.apart("x", op.x, "y", op.y);
}

void check(const ScaleRows& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, F]", {-1, -1});
  check_assignments(c, "order", op.order, op.x.shape[0]);
  c.tensor("weights", op.weights, accumulation_type(op.x.dtype), "[T, k]", op.order.shape);
  c.tensor("y", op.y, op.x.dtype, "[R, F]", op.x.shape);
}

void check(const ScaleRowsBackward& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[R, F]", {-1, -1});
  c.tensor("dy", op.dy, op.x.dtype, "[R, F]", op.x.shape);
  check_assignments(c, "order", op.order, op.x.shape[0]);
  c.tensor("weights", op.weights, accumulation_type(op.x.dtype), "[T, k]", op.order.shape);
  c.tensor("dx", op.dx, op.x.dtype, "[R, F]", op.x.shape);
  c.tensor("dweights", op.dweights, accumulation_type(op.x.dtype), "[T, k]", op.order.shape);
  c.apart("x", op.x, "dx", op.dx);
}

namespace {

// A scale of an 8-bit operand of a grouped product.
struct GroupedScale {
  const char* name;
  const TensorView& tensor;
};
// `sum`: the accumulation type of the result; n, k: of an expert's matrix.
void check_grouped(const Checker& c, bool codes, const TensorView& matrices, std::int64_t n, DType sum,
                   std::initializer_list<GroupedScale> scales) {
  const std::int64_t k = matrices.shape[1];
  c.that(matrices.shape[0] % n == 0, "matrices are {}, expected a multiple of {} rows", matrices, n);
  constexpr std::int64_t kMultiple = ScaledProduct::kMultiple;
  c.that(!codes || (n % kMultiple == 0 && k % kMultiple == 0),
         "matrices of FP8 GEMMs are [{}, {}], expected multiples of {}", n, k, kMultiple);
  for (const auto& [name, tensor] : scales)
    if (codes)
      c.tensor(name, tensor, sum, "[E]", {matrices.shape[0] / n});
    else
      c.none(name, tensor, "where operands are not of 8 bits");
}

}  // namespace

void check(const GroupedLinearForward& op) {
  const Checker c(op);
  const bool codes = is_fp8(op.x.dtype);
  c.tensor("x", op.x, TypeSet::any_float() | DType::kE4M3, "[R, K]", {-1, -1});
  check_assignments(c, "sorted_experts", op.sorted_experts, op.x.shape[0]);
  c.tensor("w", op.w, op.x.dtype, "[E N, K]", {-1, op.x.shape[1]});
  c.tensor("y", op.y, codes ? TypeSet::any_float() : op.x.dtype, "[R, N]", {op.x.shape[0], -1});
  check_grouped(c, codes, op.w, op.y.shape[1], accumulation_type(op.y.dtype),
                {{"inverse_x", op.inverse_x}, {"inverse_w", op.inverse_w}});
  c.apart("x", op.x, "y", op.y);
}

void check(const GroupedQuantisedLinear& op) {
  const Checker c(op);
  const std::int64_t expert = op.shape.bytes();
  c.tensor("x", op.x, TypeSet::any_float(), "[R, K]", {-1, op.shape.columns});
  check_assignments(c, "sorted_experts", op.sorted_experts, op.x.shape[0]);
  c.tensor("w", op.w, DType::kU8, "[bytes]", {-1});
  c.that(expert > 0 && op.w.elements() % expert == 0, "w has {} bytes, expected a multiple of an expert's {}",
         op.w.elements(), expert);
  c.tensor("y", op.y, op.x.dtype, "[R, N]", {op.x.shape[0], op.shape.rows()});
  c.apart("x", op.x, "y", op.y);
}

void check(const GroupedLinearBackwardInput& op) {
  const Checker c(op);
  const bool codes = is_fp8(op.dy.dtype);
  c.tensor("dy", op.dy, TypeSet::any_float() | TypeSet::fp8(), "[R, N]", {-1, -1});
  check_assignments(c, "sorted_experts", op.sorted_experts, op.dy.shape[0]);
  c.tensor("w", op.w, codes ? DType::kE4M3 : op.dy.dtype, "[E N, K]", {-1, -1});
  c.tensor("dx", op.dx, codes ? TypeSet::any_float() : op.dy.dtype, "[R, K]",
           {op.dy.shape[0], op.w.shape[1]});
  check_grouped(c, codes, op.w, op.dy.shape[1], accumulation_type(op.dx.dtype),
                {{"inverse_dy", op.inverse_dy}, {"inverse_w", op.inverse_w}});
  c.apart("dy", op.dy, "dx", op.dx);
}

void check(const GroupedLinearBackwardWeight& op) {
  const Checker c(op);
  const bool codes = is_fp8(op.x.dtype);
  c.tensor("x", op.x, TypeSet::any_float() | DType::kE4M3, "[R, K]", {-1, -1});
  c.tensor("dy", op.dy, codes ? TypeSet::fp8() : op.x.dtype, "[R, N]", {op.x.shape[0], -1});
  check_assignments(c, "sorted_experts", op.sorted_experts, op.x.shape[0]);
  c.tensor("dw", op.dw, codes ? TypeSet(DType::kF32) | DType::kF64 : accumulation_type(op.x.dtype),
           "[E N, K]", {op.part_of >= 0 ? op.dy.shape[1] : -1, op.x.shape[1]});
  check_grouped(c, codes, op.dw, op.dy.shape[1], op.dw.dtype,
                {{"inverse_x", op.inverse_x}, {"inverse_dy", op.inverse_dy}});
  c.that(op.part_of < 0 || !codes, "a part of expert {}'s rows in FP8", op.part_of);
}

namespace {

// `rows`: R of the rows that are somebody's or nobody's.
template <class Op>
void check_row_weights(const Checker& c, const Op& op, std::int64_t rows, DType sum) {
  check_assignments(c, "sorted_experts", op.sorted_experts, rows);
  c.that(is_given(op.order) == is_given(op.weights), "order {} and weights {}: expected both or none",
         is_given(op.order) ? "given" : "none", is_given(op.weights) ? "given" : "none");
  if (c.optional("order", op.order, DType::kI32, "[T, k]", {-1, -1}))
    c.tensor("weights", op.weights, sum, "shape of order", op.order.shape);
}

}  // namespace

void check(const ExpertBias& op) {
  const Checker c(op);
  c.tensor("y", op.y, TypeSet::any_float(), "[R, N]", {-1, -1});
  const DType sum = accumulation_type(op.y.dtype);
  c.tensor("bias", op.bias, sum, "[E, N]", {-1, op.y.shape[1]});
  check_row_weights(c, op, op.y.shape[0], sum);
}

void check(const ExpertBiasBackward& op) {
  const Checker c(op);
  c.tensor("dy", op.dy, TypeSet::any_float(), "[R, N]", {-1, -1});
  const DType sum = accumulation_type(op.dy.dtype);
  c.tensor("dbias", op.dbias, sum, "[E, N]", {-1, op.dy.shape[1]});
  check_row_weights(c, op, op.dy.shape[0], sum);
}

void check(const ExpertBiasBackwardWeights& op) {
  const Checker c(op);
  c.tensor("dy", op.dy, TypeSet::any_float(), "[R, N]", {-1, -1});
  const DType sum = accumulation_type(op.dy.dtype);
  c.tensor("bias", op.bias, sum, "[E, N]", {-1, op.dy.shape[1]});
  check_assignments(c, "sorted_experts", op.sorted_experts, op.dy.shape[0]);
  c.tensor("order", op.order, DType::kI32, "[T, k]", {-1, -1});
  c.tensor("dweights", op.dweights, sum, "shape of order", op.order.shape);
}

}  // namespace stoa::ops
