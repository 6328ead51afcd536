// What ranks that share a device need from it: the parts of a collective, ordered on a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/device.h"

namespace stoa {

class DeviceTransfer {
 public:
  virtual ~DeviceTransfer() = default;
  // Copies within the device's memory; the two ranges do not overlap.
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;
  // outputs[*][i] = sum, or maximum, over r = 0, 1, … of inputs[r][i], with the bits of
  // comm::reduce_in_rank_order(). Outputs may be inputs.
  virtual void reduce(DType type, bool maximum, std::span<const void* const> inputs,
                      std::span<void* const> outputs, std::int64_t count, Stream& stream) = 0;
};

// A device that several ranks of one process can work on at once.
class SharableDevice : public Device {
 public:
  virtual DeviceTransfer& transfer() = 0;
  // A stream of high priority: its work is scheduled before that of others where both could begin.
  virtual std::unique_ptr<Stream> create_urgent_stream() { return create_stream(); }
  // Must be called in a thread other than the device's own before it uses the device, its streams or events.
  virtual void use_in_this_thread() {}
  // Distinguishes this device from others of the host, whatever a process numbers it; empty: unknown.
  virtual std::string identity() const { return {}; }
};

// The same of any device: those of the host belong to all threads.
inline void use_in_this_thread(Device& device) {
  if (auto* const sharable = dynamic_cast<SharableDevice*>(&device)) sharable->use_in_this_thread();
}

}  // namespace stoa
