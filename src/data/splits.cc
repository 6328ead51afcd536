#include "data/splits.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace stoa::data {

SplitFractions parse_splits(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    fail<ConfigError>("splits_string '{}': {}; expected up to three shares, for example \"969,30,1\"", text,
                      why);
  };
  std::vector<double> shares;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find_first_of(",/");
    std::string_view item = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc{} || end != item.data() + item.size() || !std::isfinite(value))
      refuse(fmt::format("'{}' is not a number", item));
    if (value < 0) refuse("a share is negative");
    shares.push_back(value);
  }
  if (shares.size() > 3) refuse(fmt::format("{} shares", shares.size()));
  shares.resize(3, 0.0);
  const double sum = shares[0] + shares[1] + shares[2];
  if (!(sum > 0)) refuse("all shares are 0");
  return {shares[0] / sum, shares[1] / sum, shares[2] / sum};
}

std::array<std::pair<std::int64_t, std::int64_t>, 3> split_ranges(const SplitFractions& fractions,
                                                                  std::int64_t count) {
  std::array<std::pair<std::int64_t, std::int64_t>, 3> ranges;
  double bound = 0;
  const auto place = [&] {
    return std::min(count, static_cast<std::int64_t>(std::nearbyint(bound * static_cast<double>(count))));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    ranges[i].first = place();
    bound += fractions[i];
    ranges[i].second = place();
  }
  return ranges;
}

}  // namespace stoa::data
