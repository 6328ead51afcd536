#pragma once

#include <chrono>

namespace stoa::watch {

// Seconds since some fixed moment, whatever is done to the clock of the system.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace stoa::watch
