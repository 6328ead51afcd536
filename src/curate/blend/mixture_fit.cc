#include "curate/blend/mixture_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace stoa::curate {
namespace {

constexpr double kRidge = 1e-3;
constexpr std::size_t kBestOf = 100;

std::vector<double> mixture_features(const Mixture& weights) {
  std::vector<double> x(weights);
  for (const double w : weights) x.push_back(w * w);
  return x;
}

// Solves A x = b of a symmetric positive matrix by Cholesky's factors.
std::vector<double> solve_positive(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

}  // namespace

Mixture random_mixture(std::size_t sources, std::uint64_t seed, std::uint64_t index, double least) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kSampling, "mixture");
  Mixture weights(sources);
  double sum = 0;
  for (std::size_t i = 0; i < sources; ++i) {
    const float uniform = uniform_from_word(philox_word(key, index * sources + i));
    sum += weights[i] =
        -std::log1p(-static_cast<double>(uniform));  // exponential, which normalized are Dirichlet's
  }
  const double free = 1 - least * static_cast<double>(sources);
  for (double& w : weights) w = least + free * (sum > 0 ? w / sum : 1 / static_cast<double>(sources));
  return weights;
}

MixtureFit::MixtureFit(const std::vector<MixtureTrial>& trials)
    : sources_(trials.empty() ? 0 : trials.front().weights.size()) {
  require<ConfigError>(!trials.empty() && trials.size() + 1 >= least_trials(sources_),
                       "{} trials; a fit of {} sources needs at least {}", trials.size(), sources_,
                       least_trials(sources_));
  const std::size_t n = 2 * sources_;
  std::vector<std::vector<double>> a(n, std::vector<double>(n));
  std::vector<double> b(n);
  for (const MixtureTrial& trial : trials) {
    const std::vector<double> x = mixture_features(trial.weights);
    for (std::size_t i = 0; i < n; ++i) {
      b[i] += x[i] * trial.loss;
      for (std::size_t j = 0; j < n; ++j) a[i][j] += x[i] * x[j];
    }
  }
  // The squares are held small; the linear part is the level of the loss.
  for (std::size_t i = 0; i < n; ++i) a[i][i] += i < sources_ ? 1e-9 : kRidge;
  coefficients_ = solve_positive(std::move(a), std::move(b));
}

double MixtureFit::predict(const Mixture& weights) const {
  const std::vector<double> x = mixture_features(weights);
  return std::inner_product(x.begin(), x.end(), coefficients_.begin(), 0.0);
}

Mixture MixtureFit::best(std::uint64_t seed, std::size_t candidates) const {
  std::vector<std::pair<double, std::uint64_t>> order;
  for (std::uint64_t i = 0; i < candidates; ++i)
    order.emplace_back(predict(random_mixture(sources_, seed + 1, i)), i);
  const std::size_t taken = std::min(kBestOf, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken), order.end());
  Mixture mean(sources_);
  for (std::size_t i = 0; i < taken; ++i) {
    const Mixture own = random_mixture(sources_, seed + 1, order[i].second);
    for (std::size_t s = 0; s < sources_; ++s) mean[s] += own[s] / static_cast<double>(taken);
  }
  return mean;
}

FitQuality fit_quality(const std::vector<MixtureTrial>& trials) {
  FitQuality out;
  std::vector<double> seen, predicted;
  for (std::size_t left_out = 0; left_out < trials.size(); ++left_out) {
    std::vector<MixtureTrial> others(trials);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    seen.push_back(trials[left_out].loss);
    predicted.push_back(MixtureFit(others).predict(trials[left_out].weights));
    out.mean_error += std::abs(predicted.back() - seen.back()) / static_cast<double>(trials.size());
  }
  const double mean = mean_of(seen);
  for (const double loss : seen)
    out.spread += (loss - mean) * (loss - mean) / static_cast<double>(seen.size());
  out.spread = std::sqrt(out.spread);
  out.rank_correlation = correlation(ranks_of(seen), ranks_of(predicted));
  return out;
}

}  // namespace stoa::curate
