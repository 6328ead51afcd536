#pragma once

#include "device/device_transfer.h"

namespace stoa::comm {

// One rank's end of a device that it shares with others.
struct DeviceSide {
  DeviceKind memory = DeviceKind::kHost;  // whose tensors go this way
  DeviceTransfer* transfer = nullptr;     // null: the rank has no such device
  Stream* stream = nullptr;               // of its own, beside the one that computes

  bool takes(const TensorView& view) const { return transfer && view.device == memory; }
};

}  // namespace stoa::comm
