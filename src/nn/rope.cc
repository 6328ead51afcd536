#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "nn/rope_length.h"

namespace stoa::nn {
namespace {

double original_positions(const RopeOptions& o) {
  return static_cast<double>(o.original_positions.value_or(o.max_positions));
}

double factor_of(const RopeOptions& o) {
  if (o.factor) return *o.factor;
  if (o.kind == RopeKind::kYarn || o.kind == RopeKind::kLongrope)
    return static_cast<double>(o.max_positions) / original_positions(o);
  fail<ConfigError>("rope scaling needs a factor");
}

double exponent_size(const RopeOptions& o) {
  return static_cast<double>(o.exponent_size > 0 ? o.exponent_size : o.size);
}

// Wavelengths beyond the trained range are stretched, short ones kept, with a ramp between (Llama 3.1).
double llama3(const RopeOptions& o, double frequency) {
  const double factor = factor_of(o), original = original_positions(o);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / o.high_frequency) return frequency;
  if (wavelength > original / o.low_frequency) return frequency / factor;
  const double t = (original / wavelength - o.low_frequency) / (o.high_frequency - o.low_frequency);
  return (1 - t) * frequency / factor + t * frequency;
}

// YaRN (Peng et al. 2023): interpolate dimensions that turn less than beta_slow times, keep those above
// beta_fast.
std::vector<double> yarn(const RopeOptions& o, std::vector<double> frequencies) {
  const double size = exponent_size(o), factor = factor_of(o);
  const auto dimension = [&](double turns) {
    return size * std::log(original_positions(o) / (2 * std::numbers::pi * turns)) / (2 * std::log(o.base));
  };
  double low = dimension(o.beta_fast), high = dimension(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1 - ramp);
  }
  return frequencies;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeOptions& o, std::int64_t sequence) {
  require<ConfigError>(o.size > 0 && o.size % 2 == 0, "rotary size must be even and positive, got {}",
                       o.size);
  const double size = exponent_size(o);
  double base = o.base;
  if (o.kind == RopeKind::kDynamic) {
    const double limit = static_cast<double>(o.max_positions);
    const double length = static_cast<double>(std::max(sequence, o.max_positions));
    base *= std::pow(factor_of(o) * length / limit - (factor_of(o) - 1), size / (size - 2));
  }
  std::vector<double> out(static_cast<std::size_t>(o.size / 2));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::pow(base, -2.0 * static_cast<double>(i) / size);
  switch (o.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:
      break;
    case RopeKind::kLinear:
      for (double& f : out) f /= factor_of(o);
      break;
    case RopeKind::kLlama3:
      for (double& f : out) f = llama3(o, f);
      break;
    case RopeKind::kYarn:
      return yarn(o, std::move(out));
    case RopeKind::kLongrope: {
      const bool is_long = static_cast<double>(sequence) > original_positions(o);
      const auto& factors = is_long ? o.long_factors : o.short_factors;
      require<ConfigError>(factors.size() == out.size(), "longrope needs {} {} factors, got {}", out.size(),
                           is_long ? "long" : "short", factors.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] /= factors[i];
      break;
    }
  }
  return out;
}

double yarn_mscale(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

double rope_attention_factor(const RopeOptions& o) {
  if (o.kind == RopeKind::kYarn) {
    if (o.attention_factor) return *o.attention_factor;
    const double factor = factor_of(o);
    const auto m = [&](double scale) { return yarn_mscale(factor, scale); };
    if (o.mscale.value_or(0) != 0 && o.mscale_all.value_or(0) != 0) return m(*o.mscale) / m(*o.mscale_all);
    return m(1);
  }
  if (o.kind == RopeKind::kLongrope) {
    if (o.attention_factor) return *o.attention_factor;
    const double factor = factor_of(o);
    return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original_positions(o)));
  }
  return 1;
}

std::vector<double> rope_table(const RopeOptions& o, std::int64_t positions, std::int64_t sequence) {
  return rope_rows(o, 0, positions, sequence);
}

}  // namespace stoa::nn
