#include "curate/blend/mixture_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stoa::curate {
namespace {

double known_loss(const Mixture& w) {
  return 3 + 0.8 * std::pow(w[0] - 0.5, 2) + 0.5 * std::pow(w[1] - 0.3, 2) + 0.4 * w[2];
}

std::vector<MixtureTrial> known_trials(std::size_t count, double noise) {
  std::vector<MixtureTrial> trials;
  for (std::size_t i = 0; i < count; ++i) {
    const Mixture w = random_mixture(3, 7, i);
    trials.push_back({w, known_loss(w) + noise * std::sin(static_cast<double>(i * i))});
  }
  return trials;
}

TEST(MixtureFit, RandomMixturesCoverTheSimplex) {
  Mixture mean(4);
  double largest = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const Mixture w = random_mixture(4, 1, i);
    double sum = 0;
    for (std::size_t s = 0; s < 4; ++s) {
      EXPECT_GE(w[s], 0.01 - 1e-12);
      sum += w[s];
      mean[s] += w[s] / 4000;
      largest = std::max(largest, w[s]);
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  for (const double m : mean) EXPECT_NEAR(m, 0.25, 0.01);
  EXPECT_GT(largest, 0.9);
  EXPECT_EQ(random_mixture(4, 1, 17), random_mixture(4, 1, 17));
}

TEST(MixtureFit, FindsTheBestWeightsOfALossThatIsKnown) {
  const MixtureFit fit(known_trials(30, 0.002));
  EXPECT_NEAR(fit.predict({0.2, 0.3, 0.5}), known_loss({0.2, 0.3, 0.5}), 0.02);
  const Mixture best = fit.best(7, 20'000);
  double least = 10;
  for (std::uint64_t i = 0; i < 20'000; ++i) least = std::min(least, known_loss(random_mixture(3, 99, i)));
  EXPECT_LT(known_loss(best), least + 0.01);
  const FitQuality quality = fit_quality(known_trials(30, 0.002));
  EXPECT_LT(quality.mean_error, quality.spread / 5);
  EXPECT_GT(quality.rank_correlation, 0.95);
}

TEST(MixtureFit, SaysHowManyTrialsItNeeds) {
  EXPECT_THROW(MixtureFit(known_trials(6, 0)), ConfigError);
  EXPECT_THROW(MixtureFit({}), ConfigError);
}

}  // namespace
}  // namespace stoa::curate
