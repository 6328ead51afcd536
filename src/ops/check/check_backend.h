// Runs every operation on two backends and compares: names the first operation, tensor and element that
// differ.
#pragma once

#include <cstdint>

#include "ops/backend.h"
#include "ops/check/compare.h"
#include "ops/check/tensor_copies.h"

namespace stoa::ops {

// What values an operation may round on its way.
template <class Op>
Tolerance tolerance_for(const Op&, Tolerance base) {
  return base;
}
Tolerance tolerance_for(const LinearForward& op, Tolerance base);         // sums of matrix units
Tolerance tolerance_for(const LinearBackwardInput& op, Tolerance base);   // the same
Tolerance tolerance_for(const LinearBackwardWeight& op, Tolerance base);  // order of additions over tokens
Tolerance tolerance_for(const AttentionForward& op, Tolerance base);      // probabilities
Tolerance tolerance_for(const AttentionBackward& op,
                        Tolerance base);  // probabilities, their gradients, those of scores
Tolerance tolerance_for(const NormForward& op, Tolerance base);   // the sum with the branch
Tolerance tolerance_for(const NormBackward& op, Tolerance base);  // dx, before dbranch
Tolerance tolerance_for(const SumSquares& op, Tolerance base);    // order of additions within a block

// `checked` works on the tensors themselves, `trusted` on copies made before. NumericsError on the first
// difference. Host tensors only. Both backends outlive this one.
class CheckBackend : public ForwardOps<CheckBackend> {
 public:
  CheckBackend(Backend& checked, Backend& trusted, Tolerance tolerance = {})
      : checked_(checked), trusted_(trusted), tolerance_(tolerance) {}

  std::string_view name() const override;
  DeviceKind device_kind() const override { return checked_.device_kind(); }
  bool multiplies_stored_experts() const override { return checked_.multiplies_stored_experts(); }
  std::int64_t operations() const { return operations_; }

  template <class Op>
  void apply(const Op& op, Resources resources) {
    Op copy = op;
    TensorCopies copies;
    Op::visit(copy, [&](const char*, TensorView& tensor, Access) { copies.add(tensor); });
    copies.make();
    Op::visit(copy, [&](const char*, TensorView& tensor, Access) { copies.redirect(tensor); });

    checked_.execute(op, resources);
    const AlignedBytes workspace(trusted_.workspace_bytes(op));
    trusted_.execute(copy, Resources{resources.stream, workspace.data()});

    const Tolerance tolerance = tolerance_for(op, tolerance_);
    compare_outputs(op, copy, tolerance);
    ++operations_;
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return checked_.workspace_bytes(op);
  }

 private:
  template <class Op>
  void compare_outputs(const Op& op, const Op& trusted, const Tolerance& tolerance) const {
    std::vector<TensorView> expected;
    Op::visit(trusted, [&](const char*, const TensorView& tensor, Access) { expected.push_back(tensor); });
    std::size_t i = 0;
    Op::visit(op, [&](const char* tensor_name, const TensorView& tensor, Access access) {
      const TensorView& other = expected[i++];
      if (access == Access::kRead || !tensor) return;
      if (!is_float(tensor.dtype) && !is_fp8(tensor.dtype)) return;
      if (const auto worst = worst_mismatch(tensor, other, tolerance)) {
        fail<NumericsError>("operation {} ({}): {} {} of {} differs from {}: {}", operations_, Op::kName,
                            tensor_name, tensor.text(), checked_.name(), trusted_.name(), worst->text());
      }
    });
  }

  Backend& checked_;
  Backend& trusted_;
  const Tolerance tolerance_;
  std::int64_t operations_ = 0;
};
extern template class ForwardOps<CheckBackend>;

}  // namespace stoa::ops
