#include "eval/embeddings/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace stoa::eval {

double pearson(std::span<const double> a, std::span<const double> b) {
  require<InternalError>(a.size() == b.size(), "{} and {} values", a.size(), b.size());
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    both += x * y;
    of_a += x * x;
    of_b += y * y;
  }
  if (of_a == 0 || of_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(both / (std::sqrt(of_a) * std::sqrt(of_b)), -1.0, 1.0);
}

std::vector<double> mean_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> out(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) out[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return out;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  return pearson(mean_ranks(a), mean_ranks(b));
}

}  // namespace stoa::eval
