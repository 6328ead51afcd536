// Runs of words or characters, as the scores of texts count them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stoa::eval {

using Grams = std::map<std::string, std::int64_t>;  // how often each occurs

// All runs of `n` units, each with `between` behind every unit.
Grams grams(const std::vector<std::string>& units, std::size_t n, const char* between);
std::int64_t total_of(const Grams& g);
// Each as often as both have it.
std::int64_t count_common(const Grams& a, const Grams& b);

}  // namespace stoa::eval
