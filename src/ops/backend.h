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

template <class List>
class BackendOf;
template <class... Ops>
class BackendOf<OpList<Ops...>> : public OpInterface<Ops>... {
 public:
  using OpInterface<Ops>::execute...;
  using OpInterface<Ops>::workspace_bytes...;
};

class Backend : public BackendOf<AllOps> {
 public:
  virtual std::string_view name() const = 0;
  // The memory that its tensors must be in.
  virtual DeviceKind device_kind() const = 0;
};

// Overrides execute() and workspace_bytes() of every operation by Self::apply(op, resources) and
// Self::workspace(op).
template <class Self, class Base, class List>
class ForwardOps;
template <class Self, class Base>
class ForwardOps<Self, Base, OpList<>> : public Base {};
template <class Self, class Base, class Op, class... Rest>
class ForwardOps<Self, Base, OpList<Op, Rest...>> : public ForwardOps<Self, Base, OpList<Rest...>> {
 public:
  using ForwardOps<Self, Base, OpList<Rest...>>::execute;
  using ForwardOps<Self, Base, OpList<Rest...>>::workspace_bytes;
  void execute(const Op& op, Resources resources) override { static_cast<Self*>(this)->apply(op, resources); }
  std::size_t workspace_bytes(const Op& op) const override {
    return static_cast<const Self*>(this)->workspace(op);
  }
};

}  // namespace stoa::ops
