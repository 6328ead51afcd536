// Tables of the rotary position embedding (Su et al. 2021) and its scaling variants, as transformers computes
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stoa::nn {

enum class RopeKind : std::uint8_t { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongrope };

struct RopeOptions {
  RopeKind kind = RopeKind::kDefault;
  std::int64_t size = 0;           // dimensions of a head that rotate, even
  std::int64_t exponent_size = 0;  // divisor of the exponents, base^(-2 i / exponent_size); 0: size
  double base = 10000;
  std::int64_t max_positions = 0;  // the model's max_position_embeddings
  std::optional<double> factor;
  std::optional<std::int64_t> original_positions;   // llama3, yarn, longrope; none: max_positions
  double low_frequency = 1, high_frequency = 4;     // llama3
  double beta_fast = 32, beta_slow = 1;             // yarn
  std::optional<double> mscale, mscale_all;         // yarn
  std::optional<double> attention_factor;           // yarn, longrope
  bool truncate = true;                             // yarn
  std::vector<double> short_factors, long_factors;  // longrope: size / 2 each
};

// Angle per position of each of size/2 pairs. `sequence`: the longest sequence of this use; it matters to
// dynamic (above max_positions) and longrope (short or long factors).
std::vector<double> rope_frequencies(const RopeOptions& options, std::int64_t sequence);
// Yarn's growth of scores with the stretch (Peng et al. 2023, section 3.4), the root of it.
double yarn_mscale(double factor, double scale);
// Factor of cos and sin: 1 except for yarn and longrope.
double rope_attention_factor(const RopeOptions& options);
// [positions, 2, size/2]: cos and sin times the attention factor.
std::vector<double> rope_table(const RopeOptions& options, std::int64_t positions, std::int64_t sequence);

}  // namespace stoa::nn
