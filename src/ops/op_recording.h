// Keeps operations as they are executed, to execute them again without the layers' code: on a CPU that code
// takes a tenth of the time of a token of a small model.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ops/backend.h"

namespace stoa::ops {

class OpRecording {
 public:
  // Executes them in their order, on the tensors and workspaces that they had.
  void run(Stream& stream) const {
    for (const auto& operation : operations_) operation->execute(stream);
  }
  // What it takes, without what an allocator adds.
  std::size_t bytes() const { return bytes_; }

 private:
  friend class RecordingBackend;

  struct Operation {
    virtual ~Operation() = default;
    virtual void execute(Stream& stream) const = 0;
  };
  template <class Op>
  struct KeptOperation final : Operation {
    KeptOperation(OpInterface<Op>& backend_, const Op& op_, void* workspace_)
        : backend(backend_), op(op_), workspace(workspace_) {}
    void execute(Stream& stream) const override { backend.execute(op, Resources{stream, workspace}); }

    OpInterface<Op>& backend;
    const Op op;
    void* const workspace;
  };

  std::vector<std::unique_ptr<const Operation>> operations_;
  std::size_t bytes_ = 0;
};

// Executes on another backend, which outlives what is recorded.
class RecordingBackend final : public ForwardOps<RecordingBackend> {
 public:
  explicit RecordingBackend(Backend& executing) : executing_(executing) {}

  std::string_view name() const override { return executing_.name(); }
  DeviceKind device_kind() const override { return executing_.device_kind(); }
  bool multiplies_stored_experts() const override { return executing_.multiplies_stored_experts(); }

  template <class Op>
  void apply(const Op& op, Resources resources) {
    executing_.execute(op, resources);
    using Kept = OpRecording::KeptOperation<Op>;
    recording_.operations_.push_back(std::make_unique<Kept>(executing_, op, resources.workspace));
    recording_.bytes_ += sizeof(Kept) + sizeof(recording_.operations_.back());
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return executing_.workspace_bytes(op);
  }
  // What was executed since it was made.
  OpRecording take() { return std::move(recording_); }

 private:
  Backend& executing_;
  OpRecording recording_;
};

}  // namespace stoa::ops
