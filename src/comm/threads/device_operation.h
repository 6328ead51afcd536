// An operation between tensors on a device that the ranks share. A share of work, one of each member, is put
// on that member's stream behind what all members had submitted when they asked, so the host waits for no
// work of the device, and streams wait only for events that were recorded before: no order of operations can
// lock them up.
#pragma once

#include <memory>
#include <vector>

#include "comm/device_side.h"
#include "comm/threads/thread_operation.h"

namespace stoa::comm {

class DeviceOperation final : public ThreadOperation {
 public:
  DeviceOperation(OperationKind kind, ReduceOp op, int root, std::vector<int> ranks);

  // Once done(): later work of `stream` finds the result, and may overwrite what was sent.
  void order(Stream& stream) const;
  bool finished() const;  // once done(): the device is through with it

 private:
  void divide() override;
  void perform(std::int64_t task) override;
  void reduce(int member, Stream& stream);
  void gather(int member, Stream& stream);

  std::vector<std::unique_ptr<Event>> finished_;  // per member, behind its share
};

}  // namespace stoa::comm
