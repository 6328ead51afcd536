#include "data/ngrams.h"

#include <algorithm>
#include <cmath>

namespace stoa::data {
namespace {

// numpy's RandomState.choice of 1 … n with probabilities proportional to 1 / i.
class InverseLength {
 public:
  explicit InverseLength(int most) : cumulative_(static_cast<std::size_t>(most)) {
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

void Words::add(std::uint32_t position, bool continues) {
  if (!continues || starts_.empty()) starts_.push_back(positions_.size());
  positions_.push_back(position);
}

std::span<const std::uint32_t> Words::positions(std::size_t first, std::size_t last) const {
  const std::size_t end = last < starts_.size() ? starts_[last] : positions_.size();
  return std::span(positions_).subspan(starts_[first], end - starts_[first]);
}

double most_chosen(std::int64_t length, std::int64_t target, double probability) {
  return std::min(probability * static_cast<double>(target),
                  std::max(1.0, std::nearbyint(static_cast<double>(length) * probability)));
}

void choose_ngrams(const Words& words, double most_tokens, const NgramOptions& options, NumpyRandom& random,
                   const std::function<void(std::span<const std::uint32_t>)>& take) {
  std::vector<std::uint32_t> order(words.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(std::span(order));
  const InverseLength inverse(options.longest);
  const auto draw = [&] {
    if (!options.mean) return inverse.draw(random);
    return static_cast<std::size_t>(
        std::min<std::int64_t>(random.geometric(1 / *options.mean), options.longest));
  };
  std::vector<bool> taken(words.size());
  std::size_t done = 0;
  const auto fits = [&](std::size_t size) { return static_cast<double>(done + size) <= most_tokens; };
  for (const std::size_t first : order) {
    if (static_cast<double>(done) >= most_tokens) break;
    // The longest run from this word, of at most n words, that does not exceed the number.
    std::size_t n = draw();
    const auto last = [&] { return std::min(words.size(), first + n); };
    while (n > 0 && !fits(words.positions(first, last()).size())) --n;
    if (n == 0) continue;
    const auto from = taken.begin() + static_cast<std::ptrdiff_t>(first),
               to = taken.begin() + static_cast<std::ptrdiff_t>(last());
    if (std::find(from, to, true) != to) continue;
    std::fill(from, to, true);
    const auto positions = words.positions(first, last());
    take(positions);
    done += positions.size();
  }
}

}  // namespace stoa::data
