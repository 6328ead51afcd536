#pragma once

#include "device/device_transfer.h"

namespace stoa::comm {

// A rank's access to a device that several ranks of the process share.
struct DeviceSide {
  DeviceKind memory = DeviceKind::kHost;  // the memory whose tensors take this path
  DeviceTransfer* transfer = nullptr;     // null: the rank has no such device
  Stream* stream = nullptr;               // for communication only; not the compute stream

  bool takes(const TensorView& view) const { return transfer && view.device == memory; }
};

}  // namespace stoa::comm
