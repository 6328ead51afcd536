// Elapsed time, and the typical value of several measurements.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace stoa {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The middle one; of an even number the larger of two.
inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace stoa
