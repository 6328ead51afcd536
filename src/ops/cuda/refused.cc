#include "ops/cuda/cuda_backend.h"

namespace stoa::ops::cuda {
namespace {

[[noreturn]] void refuse(const char* what) {
  fail<ConfigError>("{}: the GPU backend has no kernel for it yet; use the CPU (--backend cpu)", what);
}

template <class Op>
std::size_t refuse_clamped(const Op& op) {
  if (op.kind == ActivationKind::kClampedSwiglu) refuse("activation clamped swiglu (gpt-oss)");
  return 0;
}

constexpr const char *kSinks = "attention sinks (gpt-oss)", *kBiases = "biases of experts (gpt-oss)",
                     *kDistillation = "distillation (model.distill)",
                     *kMagnitudes =
                         "factors and magnitudes of adapters (IA3, DoRA) and regressions of encoders",
                     *kPacked = "a frozen model in 8 or 4 bits (peft.quantize_base)",
                     *kQuantised = "products with quantised weights";

}  // namespace

void CudaBackend::execute(const AttentionSink&, Resources) { refuse(kSinks); }
void CudaBackend::execute(const AttentionSinkBackward&, Resources) { refuse(kSinks); }
void CudaBackend::execute(const DivergencePart&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const DivergenceSums&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const DivergenceMerge&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const KeptPart&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const KeptMerge&, Resources) { refuse(kDistillation); }
void CudaBackend::execute(const ExpertBias&, Resources) { refuse(kBiases); }
void CudaBackend::execute(const ExpertBiasBackward&, Resources) { refuse(kBiases); }
void CudaBackend::execute(const ExpertBiasBackwardWeights&, Resources) { refuse(kBiases); }
void CudaBackend::execute(const PackedLinearForward&, Resources) { refuse(kPacked); }
void CudaBackend::execute(const PackedLinearBackwardInput&, Resources) { refuse(kPacked); }
std::size_t CudaBackend::workspace_bytes(const PackedLinearForward&) const { refuse(kPacked); }
std::size_t CudaBackend::workspace_bytes(const PackedLinearBackwardInput&) const { refuse(kPacked); }
void CudaBackend::execute(const QuantisedLinear&, Resources) { refuse(kQuantised); }
void CudaBackend::execute(const QuantisedRows&, Resources) { refuse(kQuantised); }
std::size_t CudaBackend::workspace_bytes(const QuantisedLinear&) const { refuse(kQuantised); }
std::size_t CudaBackend::workspace_bytes(const QuantisedRows&) const { refuse(kQuantised); }
void CudaBackend::execute(const ScaleMatrix&, Resources) { refuse(kMagnitudes); }
void CudaBackend::execute(const ScaleMatrixBackward&, Resources) { refuse(kMagnitudes); }
void CudaBackend::execute(const RowDots&, Resources) { refuse(kMagnitudes); }
void CudaBackend::execute(const InverseRoot&, Resources) { refuse(kMagnitudes); }
std::size_t CudaBackend::workspace_bytes(const ScaleMatrix&) const { refuse(kMagnitudes); }
std::size_t CudaBackend::workspace_bytes(const ScaleMatrixBackward&) const { refuse(kMagnitudes); }
std::size_t CudaBackend::workspace_bytes(const RowDots&) const { refuse(kMagnitudes); }
std::size_t CudaBackend::workspace_bytes(const InverseRoot&) const { refuse(kMagnitudes); }
std::size_t CudaBackend::workspace_bytes(const DivergencePart&) const { refuse(kDistillation); }
std::size_t CudaBackend::workspace_bytes(const KeptPart&) const { refuse(kDistillation); }
std::size_t CudaBackend::workspace_bytes(const AttentionSink&) const { refuse(kSinks); }
std::size_t CudaBackend::workspace_bytes(const AttentionSinkBackward&) const { refuse(kSinks); }
std::size_t CudaBackend::workspace_bytes(const ExpertBias&) const { refuse(kBiases); }
std::size_t CudaBackend::workspace_bytes(const ExpertBiasBackward&) const { refuse(kBiases); }
std::size_t CudaBackend::workspace_bytes(const ExpertBiasBackwardWeights&) const { refuse(kBiases); }
std::size_t CudaBackend::workspace_bytes(const ActivationForward& op) const { return refuse_clamped(op); }
std::size_t CudaBackend::workspace_bytes(const ActivationBackward& op) const { return refuse_clamped(op); }

}  // namespace stoa::ops::cuda
