#include "eval/metrics/word_grams.h"

#include <algorithm>

namespace stoa::eval {

Grams grams(const std::vector<std::string>& units, std::size_t n, const char* between) {
  Grams out;
  for (std::size_t i = 0; i + n <= units.size(); ++i) {
    std::string gram;
    for (std::size_t j = i; j < i + n; ++j) gram += units[j] + between;
    ++out[gram];
  }
  return out;
}

std::int64_t total_of(const Grams& g) {
  std::int64_t sum = 0;
  for (const auto& [gram, count] : g) sum += count;
  return sum;
}

std::int64_t count_common(const Grams& a, const Grams& b) {
  std::int64_t sum = 0;
  for (const auto& [gram, count] : a)
    if (const auto it = b.find(gram); it != b.end()) sum += std::min(count, it->second);
  return sum;
}

}  // namespace stoa::eval
