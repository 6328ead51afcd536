// Computes nothing and touches no memory: counts what operations would do. The planner runs whole models on
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <type_traits>

#include "ops/backend.h"

namespace stoa::ops {

struct OpCount {
  std::int64_t calls = 0;
  double matrix_flops = 0;
  double read_bytes = 0, written_bytes = 0;  // traffic with memory if every tensor is touched once

  OpCount& operator+=(const OpCount& other);
};

// Bytes of `tensor` that the operation touches; tables of which an operation uses some rows have overloads.
template <class Op>
double touched_bytes(const Op&, const char*, const TensorView& tensor) {
  return static_cast<double>(tensor.bytes());
}
double touched_bytes(const EmbeddingForward& op, const char* name, const TensorView& tensor);
double touched_bytes(const EmbeddingBackward& op, const char* name, const TensorView& tensor);
double touched_bytes(const QuantisedRows& op, const char* name, const TensorView& tensor);
double touched_bytes(const DrawTokens& op, const char* name, const TensorView& tensor);
double touched_bytes(const AttentionForward& op, const char* name, const TensorView& tensor);
double touched_bytes(const Rotary& op, const char* name, const TensorView& tensor);

template <class Op>
OpCount count_of(const Op& op) {
  OpCount out{1, matrix_flops(op), 0, 0};
  Op::visit(op, [&](const char* name, const TensorView& tensor, Access access) {
    if (!tensor) return;
    const double bytes = touched_bytes(op, name, tensor);
    if (access != Access::kWrite) out.read_bytes += bytes;
    if (access != Access::kRead) out.written_bytes += bytes;
  });
  return out;
}

// Workspaces are those of `profile`, the backend that will run: asked of the same functions, so the plan is
// exact.
class MetaBackend final : public ForwardOps<MetaBackend> {
 public:
  explicit MetaBackend(const Backend& profile) : profile_(profile) {}

  std::string_view name() const override;
  DeviceKind device_kind() const override { return DeviceKind::kMeta; }
  bool multiplies_stored_experts() const override { return profile_.multiplies_stored_experts(); }

  template <class Op>
  void apply(const Op& op, Resources) {
    counts_[Op::kName] += count_of(op);
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return profile_.workspace_bytes(op);
  }

  const std::map<std::string_view, OpCount>& counts() const { return counts_; }
  OpCount total() const;
  void reset() { counts_.clear(); }

 private:
  const Backend& profile_;
  std::map<std::string_view, OpCount> counts_;
};
extern template class ForwardOps<MetaBackend>;

}  // namespace stoa::ops
