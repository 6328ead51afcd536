#include "eval/metrics/english_number.h"

#include <algorithm>
#include <map>
#include <vector>

#include "eval/python/text.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kThousand = 1000, kMillion = 1'000'000, kBillion = 1'000'000'000;

std::optional<std::int64_t> below_thousand(const std::vector<std::int64_t>& n, std::size_t begin,
                                           std::size_t end) {
  const auto at = [&](std::size_t i) { return n[begin + i]; };
  switch (end - begin) {
    case 0:
      return std::nullopt;
    case 2:
      return at(0) == 100 || at(1) == 100 ? at(0) * at(1) : at(0) + at(1);
    case 3:
      return at(0) * at(1) + at(2);
    case 4:
      return at(0) * at(1) + at(2) + at(3);
    default:
      return at(0);
  }
}

}  // namespace

std::optional<std::int64_t> english_number(const std::string& words) {
  static const std::map<std::string_view, std::int64_t> kValues{{"zero", 0},
                                                                {"one", 1},
                                                                {"two", 2},
                                                                {"three", 3},
                                                                {"four", 4},
                                                                {"five", 5},
                                                                {"six", 6},
                                                                {"seven", 7},
                                                                {"eight", 8},
                                                                {"nine", 9},
                                                                {"ten", 10},
                                                                {"eleven", 11},
                                                                {"twelve", 12},
                                                                {"thirteen", 13},
                                                                {"fourteen", 14},
                                                                {"fifteen", 15},
                                                                {"sixteen", 16},
                                                                {"seventeen", 17},
                                                                {"eighteen", 18},
                                                                {"nineteen", 19},
                                                                {"twenty", 20},
                                                                {"thirty", 30},
                                                                {"forty", 40},
                                                                {"fifty", 50},
                                                                {"sixty", 60},
                                                                {"seventy", 70},
                                                                {"eighty", 80},
                                                                {"ninety", 90},
                                                                {"hundred", 100},
                                                                {"thousand", kThousand},
                                                                {"million", kMillion},
                                                                {"billion", kBillion}};
  const std::string lower = lowered(replaced(words, "-", " "));
  std::vector<std::int64_t> numbers;
  for (const std::string_view word : words_of(lower))
    if (const auto it = kValues.find(word); it != kValues.end()) numbers.push_back(it->second);
  if (numbers.empty()) return std::nullopt;
  for (const std::int64_t scale : {kThousand, kMillion, kBillion})
    if (std::count(numbers.begin(), numbers.end(), scale) > 1) return std::nullopt;
  if (numbers.size() == 1) return numbers[0];
  // The larger scales stand first.
  std::int64_t sum = 0;
  std::size_t begin = 0;
  bool scaled = false;
  for (const std::int64_t scale : {kBillion, kMillion, kThousand}) {
    const auto it = std::find(numbers.begin(), numbers.end(), scale);
    if (it == numbers.end()) continue;
    const auto at = static_cast<std::size_t>(it - numbers.begin());
    if (at < begin) return std::nullopt;
    const auto times = below_thousand(numbers, begin, at);
    if (!times) return std::nullopt;
    sum += *times * scale;
    begin = at + 1;
    scaled = true;
  }
  if (scaled && begin == numbers.size()) return sum;
  return sum + below_thousand(numbers, begin, numbers.size()).value_or(0);
}

}  // namespace stoa::eval
