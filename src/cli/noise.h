// What measurements compute with.
#pragma once

#include "tensor/tensor_view.h"

namespace stoa::cli {

// Numbers between -1 and 1, different in neighbouring elements: constants would flatter the clock.
inline void write_noise(const TensorView& host) {
  std::uint32_t state = 12345;
  dispatch_float(host.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < host.elements(); ++i) {
      state = state * 1664525u + 1013904223u;
      host.as<T>()[i] = static_cast<T>(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
    }
  });
}

}  // namespace stoa::cli
