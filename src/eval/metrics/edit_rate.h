// Translation edit rate, as sacrebleu computes it by default: lower case, words between white space, one
// reference per answer. Snover et al. 2006.
#pragma once

#include <cstdint>
#include <vector>

#include "eval/metrics/text_scores.h"

namespace stoa::eval {

class EditRateCounts {
 public:
  explicit EditRateCounts(const std::vector<TextPair>& pairs);
  double score(const std::vector<std::size_t>& drawn) const;  // percent; lower is better

 private:
  struct Counts {
    std::int64_t edits = 0, reference_words = 0;
  };
  std::vector<Counts> counts_;
};

}  // namespace stoa::eval
