#include "ops/cpu/activation_kernels.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

Curve curve_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGelu:
      return Curve::kGelu;
    case ActivationKind::kGeluTanh:
      return Curve::kGeluTanh;
    case ActivationKind::kQuickGelu:
      return Curve::kQuickGelu;
    case ActivationKind::kSilu:
      return Curve::kSilu;
    case ActivationKind::kRelu:
      return Curve::kRelu;
    case ActivationKind::kSquaredRelu:
      return Curve::kSquaredRelu;
    case ActivationKind::kTanh:
      return Curve::kTanh;
    case ActivationKind::kClampedSwiglu:
      return Curve::kClampedSwiglu;
    case ActivationKind::kSigmoid:
      return Curve::kSigmoid;
  }
  fail<InternalError>("unknown activation {}", static_cast<int>(kind));
}

template <class Op>
ActivationArgs activation_args(const Op& op) {
  ActivationArgs args;
  args.curve = curve_of(op.kind);
  args.gated = op.gated;
  args.x = rows_of(op.x);
  args.alpha = static_cast<float>(op.clamp.alpha);
  args.limit = static_cast<float>(op.clamp.limit);
  args.width = op.gated ? op.x.shape.back() / 2 : op.x.shape.back();
  return args;
}

// The kernels work on one type; tensors of mixed types go to the reference.
template <class Op>
bool one_type(const Op& op, const TensorView& other) {
  return !needs_reference(op) && other.dtype == op.x.dtype;
}

}  // namespace

void CpuBackend::execute(const ActivationForward& op, Resources resources) {
  if (!one_type(op, op.y)) return ReferenceBackend::execute(op, resources);
  ActivationArgs args = activation_args(op);
  args.y = rows_of(op.y);
  const ActivationKernels& kernels = STOA_KERNELS(isa_, activation_kernels);
  run_pieces(pool_, row_count(op.x), rows_per_task(args.width),
             [&](std::int64_t begin, std::int64_t end) { kernels.forward(args, begin, end); });
}

void CpuBackend::execute(const ActivationBackward& op, Resources resources) {
  if (!one_type(op, op.dy) || !one_type(op, op.dx)) return ReferenceBackend::execute(op, resources);
  ActivationArgs args = activation_args(op);
  args.dy = rows_of(op.dy);
  args.dx = rows_of(op.dx);
  const ActivationKernels& kernels = STOA_KERNELS(isa_, activation_kernels);
  run_pieces(pool_, row_count(op.x), rows_per_task(args.width),
             [&](std::int64_t begin, std::int64_t end) { kernels.backward(args, begin, end); });
}

}  // namespace stoa::ops::cpu
