// "Did you mean …": the candidate with the smallest edit distance.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stoa {

// The candidate nearest to `name` (Levenshtein with transposition, case ignored), or "" when none is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace stoa
