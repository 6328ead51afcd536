#include "data/masked_tokens.h"

#include <algorithm>
#include <cmath>

namespace stoa::data {
namespace {

// numpy's RandomState.choice of 1 … n with probabilities proportional to 1 / i.
class NgramLength {
 public:
  explicit NgramLength(int most) : cumulative_(static_cast<std::size_t>(most)) {
    std::vector<double> p(cumulative_.size());
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = 1.0 / static_cast<double>(i + 1);
    for (int pass = 0; pass < 2; ++pass) {  // normalized when they are made and when they are used
      double sum = 0;
      for (const double x : p) sum += x;
      for (double& x : p) x /= sum;
    }
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) cumulative_[i] = sum += p[i];
    for (double& x : cumulative_) x /= sum;
  }
  std::size_t draw(NumpyRandom& random) const {
    const double u = random.next_double();
    return static_cast<std::size_t>(std::upper_bound(cumulative_.begin(), cumulative_.end(), u) -
                                    cumulative_.begin()) +
           1;
  }

 private:
  std::vector<double> cumulative_;
};

}  // namespace

void mask_tokens(std::span<std::int32_t> sequence, std::span<float> chosen, std::int64_t target,
                 const MaskingTokens& tokens, const MaskingOptions& options, NumpyRandom& random) {
  std::fill(chosen.begin(), chosen.end(), 0.0f);
  // Words: [first, past the last) tokens that stand together.
  struct Word {
    std::uint32_t begin, end;
  };
  std::vector<Word> words;
  for (std::uint32_t i = 0; i < sequence.size(); ++i) {
    const std::int32_t id = sequence[i];
    if (id == tokens.cls || id == tokens.sep) continue;
    const bool joined = options.whole_words && !words.empty() && words.back().end == i &&
                        tokens.continues[static_cast<std::size_t>(id)] != 0;
    if (joined)
      words.back().end = i + 1;
    else
      words.push_back({i, i + 1});
  }
  const double most =
      std::min(options.probability * static_cast<double>(target),
               std::max(1.0, std::nearbyint(static_cast<double>(sequence.size()) * options.probability)));
  std::vector<std::uint32_t> order(words.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(std::span(order));
  const NgramLength lengths(options.max_ngram);
  std::int64_t done = 0;
  for (const std::uint32_t first : order) {
    if (static_cast<double>(done) >= most) break;
    // The longest run from this word, of at most n words, that does not exceed the number.
    std::size_t n = lengths.draw(random);
    std::int64_t size = 0;
    for (; n > 0; --n) {
      size = 0;
      for (std::size_t w = first; w < std::min(words.size(), first + n); ++w)
        size += words[w].end - words[w].begin;
      if (static_cast<double>(done + size) <= most) break;
    }
    if (n == 0) continue;
    const std::size_t last = std::min(words.size(), first + n);
    bool taken = false;
    for (std::size_t w = first; w < last; ++w) taken = taken || chosen[words[w].begin] != 0;
    if (taken) continue;
    for (std::size_t w = first; w < last; ++w)
      for (std::uint32_t i = words[w].begin; i < words[w].end; ++i) {
        chosen[i] = 1;
        if (random.next_double() < 0.8)
          sequence[i] = tokens.mask;
        else if (random.next_double() >= 0.5)
          sequence[i] =
              static_cast<std::int32_t>(random.interval(static_cast<std::uint64_t>(tokens.vocabulary - 1)));
      }
    done += size;
  }
}

}  // namespace stoa::data
