// Labels of regressions: numbers, held as the bits of fp32 in the place of a class's number.
#pragma once

#include <bit>
#include <cstdint>

namespace stoa::data {

inline std::int32_t label_of_number(float number) { return std::bit_cast<std::int32_t>(number); }
inline float number_of_label(std::int32_t label) { return std::bit_cast<float>(label); }

}  // namespace stoa::data
