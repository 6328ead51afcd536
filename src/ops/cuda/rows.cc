#include "ops/cuda/kernels/rows.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/latent_heads.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

CopyRowsArgs copy_of(const TensorView& x, const TensorView& y) {
  CopyRowsArgs args;
  args.x = x.data, args.y = y.data;
  args.unit = copy_unit_of(x.dtype, {x.data, y.data}, {x.shape[1], x.stride0, y.stride0});
  const std::int64_t elements = args.unit / static_cast<std::int64_t>(size_of(x.dtype));
  args.rows = y.rows(), args.columns = x.shape[1] / elements;
  args.x_stride = x.stride0 / elements, args.y_stride = y.stride0 / elements;
  return args;
}

template <class Op>
ExpertRowsArgs expert_rows_of(const Op& op, const TensorView& y) {
  ExpertRowsArgs args;
  args.type = fast_element_of(Op::kName, op.x);
  args.rows = y.rows(), args.columns = y.shape[1];
  args.x = op.x.data, args.y = y.data;
  args.wide = all_aligned({args.x, args.y}) && args.columns % 8 == 0;
  return args;
}

// Arguments from kv [T, H, n + m], the shared part [T, r] and k, v [T, H, r + n], or from their gradients.
LatentHeadsArgs latent_heads_of(const TensorView& kv, const TensorView& shared, const TensorView& k,
                                const TensorView& v) {
  LatentHeadsArgs args;
  args.rope = shared.shape[1], args.own = k.shape[2] - args.rope, args.value = kv.shape[2] - args.own;
  args.unit = copy_unit_of(kv.dtype, {kv.data, shared.data, k.data, v.data},
                           {args.rope, args.own, args.value, shared.stride0});
  const std::int64_t elements = args.unit / static_cast<std::int64_t>(size_of(kv.dtype));
  args.rope /= elements, args.own /= elements, args.value /= elements;
  args.tokens = k.shape[0], args.heads = k.shape[1];
  args.kv = kv.data, args.k = k.data, args.v = v.data;
  args.shared = shared.data, args.shared_stride = shared.stride0 / elements;
  return args;
}

}  // namespace

void CudaBackend::execute(const CopyRows& op, Resources resources) {
  CopyRowsArgs args = copy_of(op.x, op.y);
  args.index = op.index ? op.index.as<std::int32_t>() : nullptr;
  launch_copy_rows(args, native_stream(resources.stream));
}

void CudaBackend::execute(const GatherRows& op, Resources resources) {
  CopyRowsArgs args = copy_of(op.x, op.y);
  args.index = op.order.as<std::int32_t>(), args.share = op.divisor();
  launch_copy_rows(args, native_stream(resources.stream));
}

void CudaBackend::execute(const SumRows& op, Resources resources) {
  ExpertRowsArgs args = expert_rows_of(op, op.y);
  args.index = op.place.as<std::int32_t>(), args.k = op.place.shape[1];
  launch_sum_rows(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ScaleRows& op, Resources resources) {
  ExpertRowsArgs args = expert_rows_of(op, op.y);
  args.index = op.order.as<std::int32_t>(), args.weights = op.weights.as<float>();
  launch_scale_rows(args, native_stream(resources.stream));
}

void CudaBackend::execute(const ScaleRowsBackward& op, Resources resources) {
  ExpertRowsArgs args = expert_rows_of(op, op.dx);
  args.index = op.order.as<std::int32_t>(), args.weights = op.weights.as<float>();
  args.dy = op.dy.data, args.dweights = op.dweights.as<float>();
  args.wide = args.wide && is_aligned(args.dy);
  launch_scale_rows_backward(args, native_stream(resources.stream));
}

void CudaBackend::execute(const LatentHeads& op, Resources resources) {
  launch_latent_heads(latent_heads_of(op.kv, op.rope, op.k, op.v), native_stream(resources.stream));
}

void CudaBackend::execute(const LatentHeadsBackward& op, Resources resources) {
  void* stream = native_stream(resources.stream);
  SharedGradientArgs sums;
  sums.type = fast_element_of(LatentHeadsBackward::kName, op.dk);
  sums.dk = op.dk.data;
  sums.tokens = op.dk.shape[0], sums.heads = op.dk.shape[1], sums.width = op.dk.shape[2];
  sums.drope = rows_of(op.drope);
  launch_latent_heads_backward(latent_heads_of(op.dkv, op.drope, op.dk, op.dv), stream);
  launch_shared_gradient(sums, stream);
}

}  // namespace stoa::ops::cuda
