#include "ops/expert_bias.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/expert_bias.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

template <class Op>
ExpertBiasArgs bias_of(const Op& op, const TensorView& y) {
  ExpertBiasArgs args;
  args.type = fast_element_of(Op::kName, y);
  args.rows = y.shape[0], args.columns = y.shape[1];
  args.sorted_experts = op.sorted_experts.template as<std::int32_t>();
  if (op.order) args.order = op.order.template as<std::int32_t>();
  args.y = y.data;
  return args;
}

}  // namespace

void CudaBackend::execute(const ExpertBias& op, Resources resources) {
  ExpertBiasArgs args = bias_of(op, op.y);
  args.bias = op.bias.as<float>();
  if (op.weights) args.weights = op.weights.as<float>();
  launch_expert_bias(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ExpertBiasBackward& op, Resources resources) {
  ExpertBiasArgs args = bias_of(op, op.dy);
  args.experts = op.dbias.shape[0];
  if (op.weights) args.weights = op.weights.as<float>();
  args.out = op.dbias.as<float>(), args.accumulate = op.accumulate;
  launch_expert_bias_backward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ExpertBiasBackwardWeights& op, Resources resources) {
  ExpertBiasArgs args = bias_of(op, op.dy);
  args.bias = op.bias.as<float>(), args.out = op.dweights.as<float>();
  launch_expert_bias_backward_weights(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
