// The interface between models and hardware. A backend overrides execute() for every operation; decorators
// (check, meta) get their overrides generated from one template.
#pragma once

#include <cstddef>
#include <string_view>

#include "device/device.h"
#include "device/scratch.h"
#include "ops/all.h"

namespace stoa::ops {

// What an operation may use in addition to its tensors.
struct Resources {
  Stream& stream;
  void* workspace = nullptr;  // Backend::workspace_bytes(op) bytes, uninitialised
};

template <class Op>
class OpInterface {
 public:
  virtual ~OpInterface() = default;
  // Computes `op`, whose shapes and types have been checked.
  virtual void execute(const Op& op, Resources resources) = 0;
  // Bytes of workspace: depends only on shapes, types and the backend's own parameters (threads, instruction
  // set).
  virtual std::size_t workspace_bytes(const Op&) const { return 0; }
};

// `Ops`: void, then the operations.
template <class None, class... Ops>
class InterfacesOf : public OpInterface<Ops>... {
 public:
  using OpInterface<Ops>::execute...;
  using OpInterface<Ops>::workspace_bytes...;
};

#define STOA_COMMA_AND_OP(Op) , Op
class Backend : public InterfacesOf<void STOA_FOR_EACH_OP(STOA_COMMA_AND_OP)> {
 public:
  virtual std::string_view name() const = 0;
  // The memory that its tensors must be in.
  virtual DeviceKind device_kind() const = 0;
  // Whether GroupedQuantisedLinear is among its operations; else experts of quantised files are held as
  // numbers.
  virtual bool multiplies_stored_experts() const { return true; }
};
#undef STOA_COMMA_AND_OP

// Overrides execute() and workspace_bytes() of every operation by Self::apply(op, resources) and
// Self::workspace(op). All in one class: a class per operation is a table of functions per operation, each as
// long as the list, in every file that makes such a backend. Where several files do, one of them has the
// explicit instantiation.
template <class Self>
class ForwardOps : public Backend {
 public:
#define STOA_FORWARD(Op)                                     \
  void execute(const Op& op, Resources resources) override { \
    static_cast<Self*>(this)->apply(op, resources);          \
  }                                                          \
  std::size_t workspace_bytes(const Op& op) const override { \
    return static_cast<const Self*>(this)->workspace(op);    \
  }
  STOA_FOR_EACH_OP(STOA_FORWARD)
#undef STOA_FORWARD
};

}  // namespace stoa::ops
