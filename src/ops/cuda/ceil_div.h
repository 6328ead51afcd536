#pragma once

#include <cstdint>

namespace stoa::ops::cuda {

// a / b, rounded up; a >= 0, b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace stoa::ops::cuda
