// Runs operations on host tensors on another device: copies the tensors of each operation there and its
// results back. Slow, but lets a GPU backend be compared with a CPU backend in CheckBackend, and run every
// test of operations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/backend.h"

namespace stoa::ops {

class OffloadBackend final : public ForwardOps<OffloadBackend> {
 public:
  OffloadBackend(std::unique_ptr<Device> device, std::unique_ptr<Backend> inner);

  std::string_view name() const override;
  DeviceKind device_kind() const override { return DeviceKind::kHost; }
  bool multiplies_stored_experts() const override { return inner_->multiplies_stored_experts(); }

  // NumericsError if the operation wrote outside of its tensors' rows.
  template <class Op>
  void apply(const Op& op, Resources) {
    ranges_.clear();
    Op copy = op;
    Op::visit(copy,
              [&](const char*, TensorView& tensor, Access access) { add(tensor, access != Access::kRead); });
    upload(inner_->workspace_bytes(op));
    Op::visit(copy, [&](const char*, TensorView& tensor, Access) { redirect(tensor); });
    inner_->execute(copy, Resources{*stream_, workspace_});
    download(Op::kName);
  }
  template <class Op>
  std::size_t workspace(const Op&) const {
    return 0;
  }

 private:
  struct Range {
    std::uintptr_t begin, end;
    bool written;
    std::size_t offset = 0;  // of `begin` in device memory
  };
  void add(const TensorView& tensor, bool written);
  void upload(std::size_t workspace_bytes);
  void redirect(TensorView& tensor) const;
  void download(const char* op);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Backend> inner_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_;
  void* workspace_ = nullptr;
  std::vector<Range> ranges_;
  std::vector<std::byte> guard_, read_;
};
extern template class ForwardOps<OffloadBackend>;

}  // namespace stoa::ops
