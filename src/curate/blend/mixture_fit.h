// How the loss on a target depends on the weights of sources, from trials with random weights (RegMix,
// 2407.01492): a quadratic fit, and the weights that it finds best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoa::curate {

using Mixture = std::vector<double>;  // weights of sources; they sum to 1

// Number `index` of a series of random mixtures (Dirichlet, all weights alike), none of a weight below
// `least`.
Mixture random_mixture(std::size_t sources, std::uint64_t seed, std::uint64_t index, double least = 0.01);

struct MixtureTrial {
  Mixture weights;
  double loss = 0;
};

// Of w_i and w_i^2 of every source, by least squares with a small ridge.
class MixtureFit {
 public:
  // ConfigError: fewer trials than least_trials().
  explicit MixtureFit(const std::vector<MixtureTrial>& trials);
  static std::size_t least_trials(std::size_t sources) { return 2 * sources + 2; }

  double predict(const Mixture& weights) const;
  // The mean of the hundred best of so many random mixtures, as RegMix takes it.
  Mixture best(std::uint64_t seed, std::size_t candidates = 100'000) const;

 private:
  std::size_t sources_;
  std::vector<double> coefficients_;
};

// How well fits predict trials that they have not seen, each in turn.
struct FitQuality {
  double mean_error = 0;        // absolute, of the loss
  double spread = 0;            // standard deviation of the losses: the error of predicting their mean
  double rank_correlation = 0;  // Spearman's, of predicted and seen losses
};
FitQuality fit_quality(const std::vector<MixtureTrial>& trials);

}  // namespace stoa::curate
