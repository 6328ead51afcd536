// Choice of n-grams of whole words in a text, as Megatron makes it
// (megatron/core/datasets/masked_dataset.py): what BERT masks and T5 cuts out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/numpy_random.h"

namespace stoa::data {

// The words of a sequence, each of one token or more.
class Words {
 public:
  // The token at `position`; one that continues belongs to the word before it, even where a token that is of
  // no word stands between them.
  void add(std::uint32_t position, bool continues);
  std::size_t size() const { return starts_.size(); }
  // Positions of the tokens of words [first, last).
  std::span<const std::uint32_t> positions(std::size_t first, std::size_t last) const;

 private:
  std::vector<std::uint32_t> positions_;
  std::vector<std::size_t> starts_;  // by word, in positions_
};

struct NgramOptions {
  double probability = 0.15;   // share of the tokens
  int longest = 3;             // words
  std::optional<double> mean;  // n is geometric of this mean before it is cut off (SpanBERT, section 3.1);
                               // unset: n has a probability proportional to 1 / n
};

// Most tokens that may be chosen of `length`, in a sample of `target` tokens at most.
double most_chosen(std::int64_t length, std::int64_t target, double probability);

// Calls `take` with the positions of one n-gram after another, as soon as it is chosen: it may draw, too.
void choose_ngrams(const Words& words, double most_tokens, const NgramOptions& options, NumpyRandom& random,
                   const std::function<void(std::span<const std::uint32_t>)>& take);

}  // namespace stoa::data
