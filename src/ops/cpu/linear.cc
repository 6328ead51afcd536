#include "ops/cpu/linear.h"

#include "ops/cpu/cpu_backend.h"

namespace stoa::ops::cpu {

void CpuBackend::execute(const LinearForward& op, Resources resources) {
  if (op.x.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(gemm_of(op), products_, pool_, resources.workspace);
}

void CpuBackend::execute(const LinearBackwardInput& op, Resources resources) {
  if (op.dy.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(gemm_of(op), products_, pool_, resources.workspace);
}

void CpuBackend::execute(const LinearBackwardWeight& op, Resources resources) {
  if (op.x.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(gemm_of(op), products_, pool_, resources.workspace);
  if (op.dbias) column_sums(op.dy, op.dbias, op.accumulate, isa_, pool_);
}

std::size_t CpuBackend::workspace_bytes(const LinearForward& op) const {
  return op.x.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(gemm_of(op), products_, pool_.size());
}

std::size_t CpuBackend::workspace_bytes(const LinearBackwardInput& op) const {
  return op.dy.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(gemm_of(op), products_, pool_.size());
}

std::size_t CpuBackend::workspace_bytes(const LinearBackwardWeight& op) const {
  return op.x.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(gemm_of(op), products_, pool_.size());
}

void CpuBackend::execute(const PackedLinearForward& op, Resources resources) {
  if (op.x.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(gemm_of(op), products_, pool_, resources.workspace);
}

void CpuBackend::execute(const PackedLinearBackwardInput& op, Resources resources) {
  if (op.dy.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run(gemm_of(op), products_, pool_, resources.workspace);
}

std::size_t CpuBackend::workspace_bytes(const PackedLinearForward& op) const {
  return op.x.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(gemm_of(op), products_, pool_.size());
}

std::size_t CpuBackend::workspace_bytes(const PackedLinearBackwardInput& op) const {
  return op.dy.dtype == DType::kF64 ? 0 : cpu::workspace_bytes(gemm_of(op), products_, pool_.size());
}

}  // namespace stoa::ops::cpu
