// Mixture of experts: the router, the grouping of tokens by expert, and GEMMs whose matrix depends on the
// row's expert.
//
// T tokens, E experts, k experts per token, R = T k assignments. Assignment a = t k + j is the j-th choice of
// token t. Sorted by expert (and by number within one), assignment order[i] is row i; place[a] is the row of
// assignment a. All sizes are known before the step; only which rows belong to which expert is decided on the
// device (sorted_experts, not decreasing). Assignments that a limit drops (LimitExperts) have expert -1;
// their rows come last and are unused.
#pragma once

#include <array>

#include "ops/access.h"

namespace stoa::ops {

enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };

struct RouterOptions {
  RouterScore score = RouterScore::kSoftmax;
  // Divides the weights of a token by their sum: softmax over the chosen logits (Megatron's default,
  // mixtral); required by sigmoid scores (DeepSeek-V3, with 1e-20 added to the sum).
  bool normalize = true;
  double scale = 1;  // of the weights, after that (routed_scaling_factor)
  // Group-limited choice (DeepSeek-V3, 2412.19437 section 2.1.2): the experts are in `groups` equal groups,
  // and only those of the best `chosen_groups` take part; a group's score is the sum of its two best scores.
  std::int64_t groups = 1, chosen_groups = 1;
};

// Scores every expert and chooses k by (score + bias), best first; ties go to the lower index.
struct RouterForward {
  static constexpr const char* kName = "router forward";
  RouterOptions options;
  TensorView logits;   // [T, E] accumulation type
  TensorView bias;     // [E] accumulation type: of the choice alone (2408.15664); or none
  TensorView experts;  // int32 [T, k]
  TensorView weights;  // [T, k] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("bias", a.bias, Access::kRead);
    f("experts", a.experts, Access::kWrite);
    f("weights", a.weights, Access::kWrite);
  }
};

// To which of a microbatch's sequences tokens belong: token i to sequence ((first + i) / run) % count. A run
// is a whole sequence, or the number of its tokens that are consecutive on a rank of a context-parallel
// group.
struct TokenSequences {
  std::int64_t count = 0, run = 0, first = 0;
  std::int64_t of(std::int64_t token) const { return (first + token) / run % count; }
};

// Where the tokens are in the whole sequences [S, L]: if sequences are split, this rank has the run from
// begin[0] on and the run from begin[1] on.
struct TokenPlaces {
  TokenSequences sequences;
  std::int64_t length = 0;  // L
  std::array<std::int64_t, 2> begin = {};

  std::int64_t of(std::int64_t token) const {
    const std::int64_t at = sequences.first + token, run = at / sequences.run;
    return sequences.of(token) * length + begin[static_cast<std::size_t>(run / sequences.count)] +
           at % sequences.run;
  }
};

// choices[place of t] = the experts of t, then their weights; other rows are unchanged. Summed over the ranks
// that share the sequences (starting from zeros), choices has all their tokens.
struct PlaceChoices {
  static constexpr const char* kName = "place choices";
  TokenPlaces places;
  TensorView experts;  // int32 [T, k]
  TensorView weights;  // [T, k] accumulation type
  TensorView choices;  // [S L, 2 k] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("experts", a.experts, Access::kRead);
    f("weights", a.weights, Access::kRead);
    f("choices", a.choices, Access::kReadWrite);
  }
};

enum class DropPolicy : std::uint8_t { kWeight, kPosition };

// Keeps at most `capacity` assignments of each sequence to each expert: those with the largest weights (ties
// go to the earlier token), or those of the first tokens. kept = experts, with -1 for dropped ones.
struct LimitExperts {
  static constexpr const char* kName = "limit experts";
  TokenPlaces places;
  std::int64_t capacity = 0;
  DropPolicy policy = DropPolicy::kWeight;
  TensorView choices;  // [S L, 2 k] accumulation type, of all tokens
  TensorView kept;     // int32 [T, k]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("choices", a.choices, Access::kRead);
    f("kept", a.kept, Access::kWrite);
  }
};

// counts[s, e] = scale x number of assignments to expert e among the given tokens of sequence s + offset.
struct CountAssignments {
  static constexpr const char* kName = "count assignments";
  TokenSequences sequences;
  TensorView experts;  // int32 [T, k]
  TensorView counts;   // [S, E] accumulation type
  double scale = 1, offset = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("experts", a.experts, Access::kRead);
    f("counts", a.counts, Access::kWrite);
  }
};

// dlogits from the gradient of the weights, with the two losses of the router (per sequence, so that no
// layout shows; both scaled by slot kLossSeed of `state`, as a token's loss is):
//   balance x E / (k L) x sum over tokens t of a sequence and experts e of p_te (assignments of e in the
//   sequence) / L,
//     times its tokens L: Megatron's seq_aux_loss, p the scores (sigmoid: over their sum);
//   z x sum over tokens of (log sum exp of logits)^2 (ST-MoE, 2202.08906 equation 5).
struct RouterBackward {
  static constexpr const char* kName = "router backward";
  RouterOptions options;
  TensorView logits;    // [T, E]
  TensorView experts;   // int32 [T, k]
  TensorView dweights;  // [T, k] accumulation type
  double balance = 0, z = 0;
  std::int64_t length = 0;   // L: tokens of a sequence, wherever they are
  TokenSequences sequences;  // of these tokens; both count where there is a balance loss
  TensorView counts;         // [S, E] accumulation type: assignments in the whole sequences; none without it
  TensorView state;          // fp64 [StepSlot::kCount]; none without the two losses
  TensorView dlogits;        // [T, E] accumulation type

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("experts", a.experts, Access::kRead);
    f("dweights", a.dweights, Access::kRead);
    f("counts", a.counts, Access::kRead);
    f("state", a.state, Access::kRead);
    f("dlogits", a.dlogits, Access::kWrite);
  }
};

// Which ranks hold the experts: each of `members` ranks has M = E copies / members consecutive ones, and
// groups of `copies` consecutive members have parts of the same experts. A single rank that holds all: {}.
struct ExpertMembers {
  std::int64_t members = 1, copies = 1, self = 0;
  std::int64_t experts_each(std::int64_t experts) const { return experts * copies / members; }
  // The first of the members that hold an expert.
  std::int64_t first_of(std::int64_t expert, std::int64_t experts) const {
    return expert / experts_each(experts) * copies;
  }
};

// Every assignment is grouped once for each member that holds a part of its expert, C = copies times: in
// order and place, copy c of assignment a is a C + c. Rows are grouped by member, `self` first, then by
// expert; unused rows come last, which counts ignores and for which sorted_experts is -1.
struct GroupByExpert {
  static constexpr const char* kName = "group by expert";
  std::int64_t expert_count = 0;  // E: ids are below it; -1: unused
  TensorView experts;             // int32 [T, k]
  TensorView order, place;        // int32 [T, k C], read as [R C]
  TensorView sorted_experts;      // int32 [T, k], read as [R], of one member; or none
  ExpertMembers members = {};
  TensorView counts = {};  // int32 [members, M]: rows for each expert of each member; without sorted_experts

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("experts", a.experts, Access::kRead);
    f("order", a.order, Access::kWrite);
    f("place", a.place, Access::kWrite);
    f("sorted_experts", a.sorted_experts, Access::kWrite);
    f("counts", a.counts, Access::kWrite);
  }
};

// Sorts the rows that arrived from the members of a group (member after member, `self` last; each member's by
// expert) by expert, then by member. F: most rows that may arrive. Beyond those that arrived, order and place
// are the identity and sorted_experts is -1: unused rows.
struct GroupArrivals {
  static constexpr const char* kName = "group arrivals";
  std::int64_t self = 0;
  TensorView counts;          // int32 [members, M]: rows from each member for each of this rank's experts
  TensorView order, place;    // int32 [F, 1]
  TensorView sorted_experts;  // int32 [F, 1]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("counts", a.counts, Access::kRead);
    f("order", a.order, Access::kWrite);
    f("place", a.place, Access::kWrite);
    f("sorted_experts", a.sorted_experts, Access::kWrite);
  }
};

// y[i] = x[order[i] / k]: the tokens' rows, sorted by expert; or some of them.
struct GatherRows {
  static constexpr const char* kName = "gather rows";
  TensorView x;        // [T, D]
  TensorView order;    // int32 [T, k], or a part of it as [R, 1]
  TensorView y;        // [R, D]
  std::int64_t k = 0;  // of such a part; 0: order has all assignments
  std::int64_t divisor() const { return k ? k : order.shape[1]; }

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("order", a.order, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// y[t] = sum over j of x[place[t k + j]], in that order: outputs of a token's experts, or gradients of its
// copies.
struct SumRows {
  static constexpr const char* kName = "sum rows";
  TensorView x;      // [R, D]
  TensorView place;  // int32 [T, k]
  TensorView y;      // [T, D]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("place", a.place, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// y[i] = weights[order[i]] x[i].
struct ScaleRows {
  static constexpr const char* kName = "scale rows";
  TensorView x;        // [R, F]
  TensorView order;    // int32 [T, k]
  TensorView weights;  // [T, k] accumulation type
  TensorView y;        // [R, F]; may be x

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("order", a.order, Access::kRead);
    f("weights", a.weights, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

// dx[i] = weights[order[i]] dy[i]; dweights[order[i]] = dy[i] . x[i].
struct ScaleRowsBackward {
  static constexpr const char* kName = "scale rows backward";
  TensorView x, dy;     // [R, F]
  TensorView order;     // int32 [T, k]
  TensorView weights;   // [T, k]
  TensorView dx;        // [R, F]; may be dy
  TensorView dweights;  // [T, k]

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("order", a.order, Access::kRead);
    f("weights", a.weights, Access::kRead);
    f("dx", a.dx, Access::kWrite);
    f("dweights", a.dweights, Access::kWrite);
  }
};

// The linear layers of ops/linear.h with a matrix per expert, one below the other: rows [e N, (e + 1) N) of w
// apply to the rows i with sorted_experts[i] = e. The last rows may be unused (-1): they are neither read nor
// written. No biases.
//
// Operands may be in FP8 (GroupedQuantize): inputs and matrices e4m3, gradients of outputs either type, K and
// N multiples of ScaledProduct::kMultiple. Sums are then multiplied by the reciprocals of the expert's two
// scales, [E] of the accumulation type of the result; otherwise those tensors are none.
struct GroupedLinearForward {
  static constexpr const char* kName = "grouped linear forward";
  TensorView x;               // [R, K]
  TensorView w;               // [E N, K]
  TensorView sorted_experts;  // int32 [T, k]
  TensorView y;               // [R, N]
  TensorView inverse_x = {}, inverse_w = {};

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("w", a.w, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("inverse_x", a.inverse_x, Access::kRead);
    f("inverse_w", a.inverse_w, Access::kRead);
    f("y", a.y, Access::kWrite);
  }
};

struct GroupedLinearBackwardInput {
  static constexpr const char* kName = "grouped linear backward input";
  TensorView dy;              // [R, N]
  TensorView w;               // [E N, K]
  TensorView sorted_experts;  // int32 [T, k]
  TensorView dx;              // [R, K]
  TensorView inverse_dy = {}, inverse_w = {};

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("dy", a.dy, Access::kRead);
    f("w", a.w, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("inverse_dy", a.inverse_dy, Access::kRead);
    f("inverse_w", a.inverse_w, Access::kRead);
    f("dx", a.dx, Access::kWrite);
  }
};

// What is summed over rows may come in parts, each of this number of rows of an expert or a multiple of it,
// the last of at least this number: results are the same bits as of all rows at once. (Matrix units add up to
// 32 rows in one go, and few rows are multiplied another way.)
constexpr std::int64_t kRowsTogether = 32;

// For experts without rows the gradient is unchanged, or zero if it does not accumulate.
struct GroupedLinearBackwardWeight {
  static constexpr const char* kName = "grouped linear backward weight";
  TensorView x;               // [R, K]
  TensorView dy;              // [R, N]
  TensorView sorted_experts;  // int32 [T, k]
  TensorView dw;              // [E N, K] accumulation type
  bool accumulate = true;
  TensorView inverse_x = {}, inverse_dy = {};
  // Not -1: all rows are this expert's, a part of them, and dw [N, K] is their sum alone. Accumulating then
  // continues the sum of earlier parts, instead of adding this part's sum to it. Not in FP8.
  std::int64_t part_of = -1;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("x", a.x, Access::kRead);
    f("dy", a.dy, Access::kRead);
    f("sorted_experts", a.sorted_experts, Access::kRead);
    f("inverse_x", a.inverse_x, Access::kRead);
    f("inverse_dy", a.inverse_dy, Access::kRead);
    f("dw", a.dw, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

// bias[e] -= rate x sign(excess[e]): experts that got more than their share of a step's global batch become
// less likely to be chosen (auxiliary-loss-free balancing, 2408.15664 algorithm 1). A skipped step changes no
// bias.
struct ExpertBiasUpdate {
  static constexpr const char* kName = "expert bias update";
  TensorView bias, excess;  // accumulation type, one shape
  TensorView state;
  double rate = 0;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("bias", a.bias, Access::kReadWrite);
    f("excess", a.excess, Access::kRead);
    f("state", a.state, Access::kRead);
  }
};

// Calls body(expert, begin, end): rows [begin, end) are one expert's. For backends whose `sorted_experts` the
// host can read.
template <class Body>
void for_each_expert(const TensorView& sorted_experts, const Body& body) {
  const auto* ids = sorted_experts.as<std::int32_t>();
  const std::int64_t rows = sorted_experts.elements();
  for (std::int64_t begin = 0; begin < rows && ids[begin] >= 0;) {
    std::int64_t end = begin + 1;
    while (end < rows && ids[end] == ids[begin]) ++end;
    body(std::int64_t{ids[begin]}, begin, end);
    begin = end;
  }
}

}  // namespace stoa::ops
