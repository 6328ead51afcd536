// Cuts of the tokens that may be drawn beyond top-k, top-p and min-p. Each makes what it cuts impossible
// (-infinity) and leaves at least one token.
#pragma once

#include <span>

namespace stoa::infer {

struct FurtherCuts {
  // The smallest set with this total probability of tokens whose surprise -ln p is nearest to what is
  // expected (Meister et al. 2023, locally typical sampling). 1: all.
  double typical_p = 1;
  // Logits at least the largest one minus so many standard deviations of all logits (Tang et al. 2024). 0:
  // all.
  double top_n_sigma = 0;
  // With this probability, of the tokens that have the threshold's probability all but the least likely are
  // excluded ("exclude top choices" of text-generation-webui). Thresholds above 0.5 exclude nothing.
  double xtc_probability = 0, xtc_threshold = 0.1;

  bool any() const { return typical_p < 1 || top_n_sigma > 0 || xtc_probability > 0; }
};

void cut_below_sigmas(std::span<float> scores, double sigmas);
// `temperature`: of the probabilities, as below.
void cut_untypical(std::span<float> scores, double mass, double temperature);
void exclude_top_choices(std::span<float> scores, double threshold, double temperature);

}  // namespace stoa::infer
