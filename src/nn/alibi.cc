#include "nn/alibi.h"

#include <bit>
#include <cmath>

namespace stoa::nn {

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> out;
  for (std::int64_t h = 0; h < heads; ++h) {
    const double step = h < power ? static_cast<double>(h + 1) : static_cast<double>(h - power) + 0.5;
    out.push_back(std::exp2(-8 * step / static_cast<double>(power)));
  }
  return out;
}

std::vector<double> alibi_table(std::int64_t heads, std::int64_t positions) {
  const std::vector<double> slopes = alibi_slopes(heads);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(positions * heads));
  for (std::int64_t p = 0; p < positions; ++p)
    for (const double slope : slopes) out.push_back(slope * static_cast<double>(p + 1 - positions));
  return out;
}

}  // namespace stoa::nn
