#include "nn/window_bias.h"

#include <algorithm>

namespace stoa::nn {

std::vector<double> window_bias(std::int64_t heads, std::int64_t window) {
  // Finite: an infinity would spoil the running maximum of a row none of whose first keys is visible.
  constexpr double kHidden = -1e9;
  std::vector<double> out(static_cast<std::size_t>(window_bias_rows(window) * heads));
  std::fill_n(out.begin(), heads, kHidden);
  std::fill_n(out.end() - heads, heads, kHidden);
  return out;
}

}  // namespace stoa::nn
