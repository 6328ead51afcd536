// What a rank's code holds to run operations.
#pragma once

#include "ops/backend.h"

namespace stoa::ops {

// Sees every operation before and after it runs: traces, benches, poison checks.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const char* op, double matrix_flops) = 0;
  virtual void after(const char* op) = 0;
};

struct OpContext {
  Backend& backend;
  Stream& stream;
  Scratch& scratch;
  OpObserver* observer = nullptr;
  Device* device = nullptr;  // of the tensors, where the host must read one in a step
};

// Checks shapes and types, gives the backend its workspace, runs the operation.
template <class Op>
void run(OpContext& context, const Op& op) {
  check(op);
  Scratch::Frame frame(context.scratch);
  Resources resources{context.stream, nullptr};
  if (const std::size_t bytes = context.backend.workspace_bytes(op))
    resources.workspace = context.scratch.allocate_bytes(bytes);
  if (context.observer) context.observer->before(Op::kName, matrix_flops(op));
  context.backend.execute(op, resources);
  if (context.observer) context.observer->after(Op::kName);
}

}  // namespace stoa::ops
