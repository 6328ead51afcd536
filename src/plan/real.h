#pragma once

#include <cstdint>

namespace stoa::plan {

inline double real(std::int64_t count) { return static_cast<double>(count); }

}  // namespace stoa::plan
