// How well scores s agree with targets t: sums that can be added over ranks.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace stoa::train {

struct RegressionSums {
  double count = 0, absolute = 0, s = 0, t = 0, ss = 0, tt = 0, st = 0;

  void add(double score, double target) {
    count += 1;
    absolute += std::abs(score - target);
    s += score, t += target;
    ss += score * score, tt += target * target, st += score * target;
  }
  // The mean absolute error, and Pearson's correlation; none of a single text, or of equal ones.
  std::vector<std::pair<std::string, double>> scores() const {
    std::vector<std::pair<std::string, double>> out{{"mae", count > 0 ? absolute / count : 0}};
    const double spread = (count * ss - s * s) * (count * tt - t * t);
    if (spread > 0) out.emplace_back("pearson", (count * st - s * t) / std::sqrt(spread));
    return out;
  }
};

}  // namespace stoa::train
