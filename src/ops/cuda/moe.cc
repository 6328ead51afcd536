#include "ops/moe.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/expert_groups.h"
#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/kernels/router.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/rounding.h"

namespace stoa::ops::cuda {
namespace {

SequenceArgs sequences_of(const TokenSequences& s) { return {s.count, s.run, s.first}; }
PlaceArgs places_of(const TokenPlaces& p) {
  return {sequences_of(p.sequences), p.length, {p.begin[0], p.begin[1]}};
}

template <class Op>
RouterArgs router_of(const Op& op) {
  fast_element_of(Op::kName, op.logits);
  RouterArgs args;
  args.sigmoid = op.options.score == RouterScore::kSigmoid;
  args.normalize = op.options.normalize, args.scale = op.options.scale;
  args.groups = op.options.groups, args.chosen_groups = op.options.chosen_groups;
  args.tokens = op.logits.shape[0], args.experts = op.logits.shape[1], args.k = op.experts.shape[1];
  require<ConfigError>(args.experts <= kMostExperts, "{}: {} experts on a GPU: expected at most {}",
                       Op::kName, args.experts, kMostExperts);
  args.logits = op.logits.template as<float>();
  args.ids = op.experts.template as<std::int32_t>();
  return args;
}

std::int64_t group_chunks(const GroupByExpert& op) { return ceil_div(op.experts.elements(), kGroupChunk); }

// Rows of experts, inputs and outputs of a grouped layer; what its products are like.
struct GroupedShape {
  const TensorView &x, &w, &sorted;  // x or dx; w or dw
  std::int64_t n;
  const TensorView& typed;         // whose type is GroupedArgs::type
  const TensorView &left, &right;  // operands
  const TensorView &inverse_left, &inverse_right;
  std::int64_t part_of = -1;  // GroupedLinearBackwardWeight::part_of
  std::int64_t experts() const { return std::max(part_of + 1, w.rows() / n); }
  bool codes() const { return is_fp8(left.dtype); }
};
GroupedShape shape_of(const GroupedLinearForward& op) {
  return {op.x, op.w, op.sorted_experts, op.y.shape[1], op.y, op.x, op.w, op.inverse_x, op.inverse_w};
}
GroupedShape shape_of(const GroupedLinearBackwardInput& op) {
  return {op.dx, op.w, op.sorted_experts, op.dy.shape[1], op.dx, op.dy, op.w, op.inverse_dy, op.inverse_w};
}
GroupedShape shape_of(const GroupedLinearBackwardWeight& op) {
  const bool codes = is_fp8(op.dy.dtype);
  return {op.x,  op.dw, op.sorted_experts, op.dy.shape[1], codes ? op.dw : op.x,
          op.dy, op.x,  op.inverse_dy,     op.inverse_x,   op.part_of};
}

// First rows and first tiles of experts, and their ends.
std::size_t bounds_bytes(const GroupedShape& shape) {
  return static_cast<std::size_t>(2 * (shape.experts() + 1)) * sizeof(std::int32_t);
}

template <class Op>
GroupedArgs grouped_of(const Op& op, Resources resources, int warpgroup_blocks) {
  const GroupedShape shape = shape_of(op);
  GroupedArgs args;
  args.warpgroup_blocks = warpgroup_blocks;
  args.type = fast_element_of(Op::kName, shape.typed);
  if (shape.codes()) {
    args.codes = {true, shape.left.dtype == DType::kE5M2 ? Float8::kE5M2 : Float8::kE4M3,
                  shape.inverse_left.template as<float>(), shape.inverse_right.template as<float>()};
    require<InternalError>(all_aligned({shape.left.data, shape.right.data}), "{}: codes at odd addresses",
                           Op::kName);
  }
  args.rows = shape.x.rows(), args.experts = shape.experts();
  args.k = shape.x.shape[1], args.n = shape.n;
  ExpertBoundsArgs bounds;
  bounds.sorted_experts = shape.sorted.template as<std::int32_t>();
  bounds.rows = args.rows, bounds.experts = args.experts;
  bounds.tile = grouped_tile_rows(shape.codes() ? Element::kBF16 : args.type);
  bounds.begin = static_cast<std::int32_t*>(resources.workspace);
  bounds.tiles = bounds.begin + args.experts + 1;
  args.begin = bounds.begin, args.tiles = bounds.tiles;
  launch_expert_bounds(bounds, native_stream(resources.stream));
  return args;
}

bool is_wide(const GroupedArgs& args) {
  return args.k % 8 == 0 && args.n % 8 == 0 && all_aligned({args.x, args.w, args.dy, args.out});
}

}  // namespace

void CudaBackend::execute(const RouterForward& op, Resources resources) {
  RouterArgs args = router_of(op);
  args.bias = op.bias ? op.bias.as<float>() : nullptr;
  args.weights = op.weights.as<float>();
  launch_router_forward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const RouterBackward& op, Resources resources) {
  RouterArgs args = router_of(op);
  args.dweights = op.dweights.as<float>(), args.dlogits = op.dlogits.as<float>();
  if (op.balance != 0) {
    args.balance = op.balance * static_cast<double>(args.experts) / static_cast<double>(args.k * op.length);
    args.sequences = sequences_of(op.sequences);
    args.counts = op.counts.as<float>();
  }
  args.z = op.z;
  args.seed = op.state ? slot(op.state, StepSlot::kLossSeed) : nullptr;
  launch_router_backward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const CountAssignments& op, Resources resources) {
  fast_element_of(CountAssignments::kName, op.counts);
  CountAssignmentsArgs args;
  args.sequences = sequences_of(op.sequences);
  args.ids = op.experts.as<std::int32_t>();
  args.tokens = op.experts.shape[0], args.k = op.experts.shape[1], args.experts = op.counts.shape[1];
  args.counts = op.counts.as<float>();
  args.scale = op.scale, args.offset = op.offset;
  launch_count_assignments(args, native_stream(resources.stream));
}

void CudaBackend::execute(const PlaceChoices& op, Resources resources) {
  fast_element_of(PlaceChoices::kName, op.choices);
  launch_place_choices({places_of(op.places), op.experts.as<std::int32_t>(), op.weights.as<float>(),
                        op.experts.shape[0], op.experts.shape[1], op.choices.as<float>()},
                       native_stream(resources.stream));
}

void CudaBackend::execute(const LimitExperts& op, Resources resources) {
  fast_element_of(LimitExperts::kName, op.choices);
  launch_limit_experts(
      {places_of(op.places), op.capacity, op.policy == DropPolicy::kWeight, op.choices.as<float>(),
       op.kept.shape[0], op.kept.shape[1], op.kept.as<std::int32_t>()},
      native_stream(resources.stream));
}

// Assignments of each expert in each chunk; first rows of each expert of each member.
std::size_t CudaBackend::workspace_bytes(const GroupByExpert& op) const {
  return static_cast<std::size_t>(group_chunks(op) * (op.expert_count + 1) +
                                  op.expert_count * op.members.copies + 1) *
         sizeof(std::int32_t);
}

void CudaBackend::execute(const GroupByExpert& op, Resources resources) {
  GroupByExpertArgs args;
  args.experts = op.experts.as<std::int32_t>();
  args.assignments = op.experts.elements(), args.expert_count = op.expert_count;
  args.members = op.members.members, args.copies = op.members.copies, args.self = op.members.self;
  args.each = op.members.experts_each(op.expert_count);
  args.order = op.order.as<std::int32_t>(), args.place = op.place.as<std::int32_t>();
  args.sorted_experts = op.sorted_experts ? op.sorted_experts.as<std::int32_t>() : nullptr;
  args.counts = op.counts ? op.counts.as<std::int32_t>() : nullptr;
  args.chunks = static_cast<std::int32_t*>(resources.workspace);
  args.starts = args.chunks + group_chunks(op) * (op.expert_count + 1);
  launch_group_by_expert(args, native_stream(resources.stream));
}

// First rows that arrive, and where they go.
std::size_t CudaBackend::workspace_bytes(const GroupArrivals& op) const {
  return static_cast<std::size_t>(2 * op.counts.elements() + 1) * sizeof(std::int32_t);
}

void CudaBackend::execute(const GroupArrivals& op, Resources resources) {
  GroupArrivalsArgs args;
  args.counts = op.counts.as<std::int32_t>();
  args.members = op.counts.shape[0], args.each = op.counts.shape[1], args.self = op.self;
  args.rows = op.order.rows();
  args.order = op.order.as<std::int32_t>(), args.place = op.place.as<std::int32_t>();
  args.sorted_experts = op.sorted_experts.as<std::int32_t>();
  args.arrivals = static_cast<std::int32_t*>(resources.workspace);
  args.places = args.arrivals + op.counts.elements() + 1;
  launch_group_arrivals(args, native_stream(resources.stream));
}

std::size_t CudaBackend::workspace_bytes(const GroupedLinearForward& op) const {
  return bounds_bytes(shape_of(op));
}
std::size_t CudaBackend::workspace_bytes(const GroupedLinearBackwardInput& op) const {
  return bounds_bytes(shape_of(op));
}
std::size_t CudaBackend::workspace_bytes(const GroupedLinearBackwardWeight& op) const {
  return bounds_bytes(shape_of(op));
}

void CudaBackend::execute(const GroupedLinearForward& op, Resources resources) {
  GroupedArgs args = grouped_of(op, resources, kernels_.warpgroup_blocks);
  args.x = op.x.data, args.w = op.w.data, args.out = op.y.data;
  args.wide = is_wide(args);
  launch_grouped_forward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const GroupedLinearBackwardInput& op, Resources resources) {
  GroupedArgs args = grouped_of(op, resources, kernels_.warpgroup_blocks);
  args.dy = op.dy.data, args.w = op.w.data, args.out = op.dx.data;
  args.wide = is_wide(args);
  launch_grouped_backward_input(args, native_stream(resources.stream));
}

void CudaBackend::execute(const GroupedLinearBackwardWeight& op, Resources resources) {
  GroupedArgs args = grouped_of(op, resources, kernels_.warpgroup_blocks);
  args.x = op.x.data, args.dy = op.dy.data, args.out = op.dw.data;
  args.accumulate = op.accumulate;
  args.part_of = op.part_of;
  args.wide = is_wide(args);
  launch_grouped_backward_weight(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ExpertBiasUpdate& op, Resources resources) {
  fast_element_of(ExpertBiasUpdate::kName, op.bias);
  launch_expert_bias_update(
      {op.bias.as<float>(), op.excess.as<float>(), op.bias.elements(), op.state.as<double>(), op.rate},
      native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
