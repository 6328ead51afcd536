// "969,30,1": which share of the documents trains, validates and tests (Megatron's --split, NeMo's
// splits_string).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace stoa::data {

enum class Split { kTrain, kValidation, kTest };
inline constexpr std::array<std::string_view, 3> kSplitNames{"train", "valid", "test"};

using SplitFractions = std::array<double, 3>;  // sum 1

// One to three non-negative numbers, not all 0; those that are missing are 0. ConfigError otherwise.
SplitFractions parse_splits(std::string_view text);

// [round(begin * count), round(end * count)) of each split, rounding half to even as Python does.
std::array<std::pair<std::int64_t, std::int64_t>, 3> split_ranges(const SplitFractions& fractions,
                                                                  std::int64_t count);

}  // namespace stoa::data
