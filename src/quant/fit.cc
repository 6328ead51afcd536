#include "quant/fit.h"

#include <algorithm>
#include <cmath>

#include "quant/block_bytes.h"

namespace stoa::quant {
namespace {

constexpr int kCandidates = 20;  // to each side of the plain scale

double error_of(const float* x, const float* weights, int count, float scale, float minimum, int lowest,
                int highest) {
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    const int q = code_of(x[i], scale, minimum, lowest, highest);
    const double difference = static_cast<double>(scale) * q - minimum - x[i];
    sum += weights[i] * difference * difference;
  }
  return sum;
}

}  // namespace

int code_of(float x, float scale, float minimum, int lowest, int highest) {
  if (scale == 0) return std::clamp(0, lowest, highest);
  const float q = std::nearbyint((x + minimum) / scale);
  return static_cast<int>(std::clamp(q, static_cast<float>(lowest), static_cast<float>(highest)));
}

float fit_scale(const float* x, const float* weights, int count, int lowest, int highest) {
  const float far = extreme(x, count);
  if (far == 0) return 0;
  float best = far / static_cast<float>(lowest);
  double best_error = error_of(x, weights, count, best, 0, lowest, highest);
  for (int step = -kCandidates; step <= kCandidates; ++step) {
    const float start = far / (static_cast<float>(lowest) - 0.1f * static_cast<float>(step));
    double products = 0, squares = 0;
    for (int i = 0; i < count; ++i) {
      const double q = code_of(x[i], start, 0, lowest, highest), w = weights[i];
      products += w * q * x[i];
      squares += w * q * q;
    }
    if (squares == 0) continue;
    const auto scale = static_cast<float>(products / squares);
    const double error = error_of(x, weights, count, scale, 0, lowest, highest);
    if (error < best_error) best_error = error, best = scale;
  }
  return best;
}

Affine fit_affine(const float* x, const float* weights, int count, int highest) {
  const auto [least, most] = std::minmax_element(x, x + count);
  const float low = std::min(*least, 0.0f), high = *most;
  if (high <= low) return {0, -low};
  Affine best{(high - low) / static_cast<float>(highest), -low};
  double best_error = error_of(x, weights, count, best.scale, best.minimum, 0, highest);
  for (int step = -kCandidates / 2; step <= kCandidates; ++step) {
    const float start = (high - low) / (static_cast<float>(highest) + 0.1f * static_cast<float>(step));
    double w_sum = 0, q_sum = 0, x_sum = 0, qq = 0, qx = 0;
    for (int i = 0; i < count; ++i) {
      const double q = code_of(x[i], start, -low, 0, highest), w = weights[i];
      w_sum += w;
      q_sum += w * q;
      x_sum += w * x[i];
      qq += w * q * q;
      qx += w * q * x[i];
    }
    const double determinant = w_sum * qq - q_sum * q_sum;
    if (determinant <= 0) continue;
    double scale = (w_sum * qx - q_sum * x_sum) / determinant;
    double offset = (qq * x_sum - q_sum * qx) / determinant;
    if (offset > 0) offset = 0, scale = qq > 0 ? qx / qq : 0;
    if (!(scale > 0)) continue;
    const Affine fit{static_cast<float>(scale), static_cast<float>(-offset)};
    const double error = error_of(x, weights, count, fit.scale, fit.minimum, 0, highest);
    if (error < best_error) best_error = error, best = fit;
  }
  return best;
}

float factor_of(const float* scales, int count, int highest) {
  const float far = std::abs(extreme(scales, count));
  return static_cast<float>(f16(far / static_cast<float>(highest)));
}

float mean_square(const float* x, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum / static_cast<float>(count);
}

void weigh(const float* x, const float* importance, int count, float square, float* weights) {
  for (int i = 0; i < count; ++i)
    weights[i] =
        importance ? importance[i] * std::sqrt(square + x[i] * x[i]) : std::sqrt(square) + std::abs(x[i]);
}

}  // namespace stoa::quant
