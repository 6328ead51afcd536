#include "tune/contrastive.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace stoa::tune {
namespace {

std::vector<double> drawn_vectors(std::int64_t count) {
  const auto key = philox_key(3, RandomPurpose::kTest, "vectors");
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(philox_word(key, static_cast<std::uint64_t>(i)) * 0x1p-31 - 1);
  return out;
}

TEST(Contrastive, IsTheCrossEntropyOfCosines) {
  // Queries along x and y; the first positive is right, the second lies between.
  const std::vector<double> values{2, 0, 3, 0, 0, 1, 1, 1};
  const ContrastiveLoss found = contrastive_loss({values, 2, 2}, 0.5, false);
  const double half = std::sqrt(0.5);
  const double first = -2 + std::log(std::exp(2) + std::exp(2 * half)),
               second = -2 * half + std::log(std::exp(0) + std::exp(2 * half));
  EXPECT_NEAR(found.loss, first + second, 1e-12);
  EXPECT_EQ(found.right, 2);
  EXPECT_NEAR(found.positive, 1 + half, 1e-12);
  EXPECT_NEAR(found.others, half + 0, 1e-12);
  EXPECT_TRUE(found.gradients.empty());
  // A negative that is nearer than the positive.
  const std::vector<double> hard{1, 0, 0, 1, 1, 0.1};
  EXPECT_EQ(contrastive_loss({hard, 2, 3}, 0.05, false).right, 0);
}

TEST(Contrastive, GradientsAreThoseOfTheLoss) {
  constexpr double kStep = 1e-6;
  for (const std::int64_t texts : {2, 3, 4})
    for (const double temperature : {0.05, 1.0}) {
      std::vector<double> values = drawn_vectors(5 * texts * 7);
      const std::vector<double> gradients = contrastive_loss({values, 7, texts}, temperature, true).gradients;
      ASSERT_EQ(gradients.size(), values.size());
      for (std::size_t i = 0; i < values.size(); i += 3) {
        const double here = values[i];
        const auto at = [&](double x) {
          values[i] = x;
          return contrastive_loss({values, 7, texts}, temperature, false).loss;
        };
        const double slope = (at(here + kStep) - at(here - kStep)) / (2 * kStep);
        values[i] = here;
        EXPECT_NEAR(gradients[i], slope, 1e-7 * std::max(1.0, std::abs(slope))) << texts << " " << i;
      }
    }
}

TEST(Contrastive, VectorsOfNoLengthAndFarApartAreFinite) {
  std::vector<double> values(4 * 3, 0.0);
  values[3] = 1e300;
  const ContrastiveLoss found = contrastive_loss({values, 3, 2}, 1e-3, true);
  EXPECT_TRUE(std::isfinite(found.loss));
  for (const double gradient : found.gradients) EXPECT_TRUE(std::isfinite(gradient));
}

}  // namespace
}  // namespace stoa::tune
