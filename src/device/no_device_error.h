// There is no device of the kind that is asked for, as opposed to one that cannot be used.
#pragma once

#include "base/error.h"

namespace stoa {

class NoDeviceError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace stoa
