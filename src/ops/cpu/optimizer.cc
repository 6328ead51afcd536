#include <cmath>
#include <string_view>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/elementwise_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/cpu/optimizer_kernels.h"
#include "ops/step_state.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kUpdatePiece = 16384;  // elements: five streams of 64 KiB

double slot(const TensorView& state, StepSlot which) { return state.as<double>()[static_cast<int>(which)]; }

// Elements [begin, end) of every tensor of an operation that works element by element.
template <class Op>
Op piece_of(Op op, std::int64_t begin, std::int64_t end) {
  Op::visit(op, [&](const char* name, TensorView& tensor, Access) {
    if (tensor && std::string_view(name) != "state")
      tensor = tensor.reshape({tensor.elements()}).slice(begin, end - begin);
  });
  return op;
}

// The state is fp64 by definition; the tensors decide.
bool is_fp32(const TensorView& master, const TensorView& compute) {
  return master.dtype == DType::kF32 && (!compute || compute.dtype != DType::kF64);
}

}  // namespace

void CpuBackend::execute(const SumSquares& op, Resources resources) {
  if (op.x.dtype != DType::kF32) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  double* const sums = op.sums.as<double>();
  const float* const x = op.x.as<float>();
  run_pieces(pool_, op.blocks(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = op.begin(b);
      sums[b] += kernels.sum_squares(x + begin, op.begin(b + 1) - begin);
    }
  });
}

void CpuBackend::execute(const AdamUpdate& op, Resources resources) {
  if (!is_fp32(op.master, op.compute)) return ReferenceBackend::execute(op, resources);
  if (slot(op.state, StepSlot::kFoundInf) != 0) return;
  const double rate = slot(op.state, StepSlot::kLearningRate) * op.rate_factor;
  const double decay = slot(op.state, StepSlot::kWeightDecay) * op.decay_factor;
  const double updates = slot(op.state, StepSlot::kUpdates);
  AdamArgs args;
  args.master = op.master.as<float>();
  args.gradient = op.gradient.as<float>();
  args.m = op.m.as<float>();
  args.v = op.v.as<float>();
  args.compute = op.compute.data;
  args.compute_type = op.compute ? element_of(op.compute.dtype) : Element::kF32;
  args.gradient_factor = static_cast<float>(slot(op.state, StepSlot::kGradFactor));
  args.beta1 = static_cast<float>(op.beta1);
  args.beta2 = static_cast<float>(op.beta2);
  args.one_minus_beta1 = static_cast<float>(1 - op.beta1);
  args.one_minus_beta2 = static_cast<float>(1 - op.beta2);
  args.step = static_cast<float>(rate / (1 - std::pow(op.beta1, updates)));
  args.correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(op.beta2, updates)));
  args.epsilon = static_cast<float>(op.epsilon);
  args.keep = op.decoupled ? static_cast<float>(1 - rate * decay) : 1.0f;
  args.decay = op.decoupled ? 0.0f : static_cast<float>(decay);
  const OptimizerKernels& kernels = STOA_KERNELS(isa_, optimizer_kernels);
  run_pieces(pool_, op.master.elements(), kUpdatePiece,
             [&](std::int64_t begin, std::int64_t end) { kernels.adam(args, begin, end); });
}

void CpuBackend::execute(const SgdUpdate& op, Resources resources) {
  if (!is_fp32(op.master, op.compute)) return ReferenceBackend::execute(op, resources);
  if (slot(op.state, StepSlot::kFoundInf) != 0) return;
  SgdArgs args;
  args.master = op.master.as<float>();
  args.gradient = op.gradient.as<float>();
  args.momentum = op.momentum ? op.momentum.as<float>() : nullptr;
  args.compute = op.compute.data;
  args.compute_type = op.compute ? element_of(op.compute.dtype) : Element::kF32;
  args.gradient_factor = static_cast<float>(slot(op.state, StepSlot::kGradFactor));
  args.momentum_factor = static_cast<float>(op.momentum_factor);
  args.rate = static_cast<float>(slot(op.state, StepSlot::kLearningRate) * op.rate_factor);
  args.decay = static_cast<float>(slot(op.state, StepSlot::kWeightDecay) * op.decay_factor);
  const OptimizerKernels& kernels = STOA_KERNELS(isa_, optimizer_kernels);
  run_pieces(pool_, op.master.elements(), kUpdatePiece,
             [&](std::int64_t begin, std::int64_t end) { kernels.sgd(args, begin, end); });
}

// Between the products of Newton-Schulz steps, which take many times as long: the reference's, shared out.
void CpuBackend::execute(const MuonMomentum& op, Resources resources) {
  run_pieces(pool_, op.gradient.elements(), kUpdatePiece, [&](std::int64_t begin, std::int64_t end) {
    ReferenceBackend::execute(piece_of(op, begin, end), resources);
  });
}

void CpuBackend::execute(const MuonUpdate& op, Resources resources) {
  run_pieces(pool_, op.master.elements(), kUpdatePiece, [&](std::int64_t begin, std::int64_t end) {
    ReferenceBackend::execute(piece_of(op, begin, end), resources);
  });
}

}  // namespace stoa::ops::cpu
