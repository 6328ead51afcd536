// The CPU backend with matrices that stay quantised: their products and lookups are done here, everything else by
// the backend that it wraps.
#pragma once

#include <map>
#include <memory>

#include "ops/backend.h"
#include "ops/cpu/quantised_matrix.h"

namespace stoa::ops::cpu {

class QuantisedBackend final : public ForwardOps<QuantisedBackend, Backend, AllOps>, public QuantisedMemory {
 public:
  QuantisedBackend(std::unique_ptr<Backend> inner, WorkerPool& pool, InstructionSet isa)
      : inner_(std::move(inner)), pool_(pool), kernels_(STOA_KERNELS(isa, quantised_kernels)) {}

  std::string_view name() const override { return inner_->name(); }
  DeviceKind device_kind() const override { return inner_->device_kind(); }
  bool hold(const TensorView& matrix, std::span<const QuantisedRow> rows) override;
  std::size_t held_bytes() const override;

  template <class Op>
  void apply(const Op& op, Resources resources) {
    if constexpr (std::is_same_v<Op, LinearForward>) {
      if (const auto* matrix = find(op.w)) return multiply(op, *matrix);
    } else if constexpr (std::is_same_v<Op, EmbeddingForward>) {
      if (const auto* table = find(op.table)) return look_up(op, *table, resources);
    }
    inner_->execute(op, resources);
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return inner_->workspace_bytes(op);
  }

 private:
  const QuantisedMatrix* find(const TensorView& tensor) const {
    const auto found = held_.find(tensor.data);
    return found == held_.end() ? nullptr : &found->second;
  }
  void multiply(const LinearForward& op, const QuantisedMatrix& matrix);
  void look_up(const EmbeddingForward& op, const QuantisedMatrix& table, Resources resources);

  const std::unique_ptr<Backend> inner_;
  WorkerPool& pool_;
  const QuantisedKernels& kernels_;
  std::map<const void*, QuantisedMatrix> held_;  // by address of the tensor that each stands for
  std::vector<float> x_, y_;
};

}  // namespace stoa::ops::cpu
