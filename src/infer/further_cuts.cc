#include "infer/further_cuts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace stoa::infer {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Likely {
  std::size_t id;
  double probability;
};

// The tokens that are possible, the most likely first.
std::vector<Likely> likely_tokens(std::span<const float> scores, double temperature) {
  std::vector<Likely> out;
  const double highest = *std::max_element(scores.begin(), scores.end());
  if (!std::isfinite(highest)) return out;
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] == kImpossible) continue;
    out.push_back({i, std::exp((static_cast<double>(scores[i]) - highest) / temperature)});
    sum += out.back().probability;
  }
  for (Likely& token : out) token.probability /= sum;
  std::stable_sort(out.begin(), out.end(),
                   [&](const Likely& a, const Likely& b) { return scores[a.id] > scores[b.id]; });
  return out;
}

}  // namespace

void cut_below_sigmas(std::span<float> scores, double sigmas) {
  double sum = 0, squares = 0, highest = kImpossible;
  std::int64_t count = 0;
  for (const float x : scores) {
    if (x == kImpossible) continue;
    sum += x;
    highest = std::max<double>(highest, x);
    ++count;
  }
  if (count == 0 || !std::isfinite(sum)) return;
  const double mean = sum / static_cast<double>(count);
  for (const float x : scores)
    if (x != kImpossible) squares += (x - mean) * (x - mean);
  const double least = highest - sigmas * std::sqrt(squares / static_cast<double>(count));
  for (float& x : scores)
    if (x < least) x = kImpossible;
}

void cut_untypical(std::span<float> scores, double mass, double temperature) {
  std::vector<Likely> tokens = likely_tokens(scores, temperature);
  double entropy = 0;
  for (const Likely& token : tokens)
    if (token.probability > 0) entropy -= token.probability * std::log(token.probability);
  const auto distance = [&](const Likely& token) {
    return std::abs(-std::log(std::max(token.probability, std::numeric_limits<double>::min())) - entropy);
  };
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](const Likely& a, const Likely& b) { return distance(a) < distance(b); });
  double reached = 0;
  for (const Likely& token : tokens) {
    if (reached >= mass) scores[token.id] = kImpossible;
    reached += token.probability;
  }
}

void exclude_top_choices(std::span<float> scores, double threshold, double temperature) {
  if (threshold > 0.5) return;
  const std::vector<Likely> tokens = likely_tokens(scores, temperature);
  std::size_t choices = 0;
  while (choices < tokens.size() && tokens[choices].probability >= threshold) ++choices;
  for (std::size_t i = 0; i + 1 < choices; ++i) scores[tokens[i].id] = kImpossible;
}

}  // namespace stoa::infer
