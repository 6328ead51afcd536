#include "infer/beam_search.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/probabilities.h"

namespace stoa::infer {

BeamSearch::BeamSearch(std::int64_t beams, double length_penalty, SearchLimits limits)
    : beams_(static_cast<std::size_t>(beams)), length_penalty_(length_penalty), limits_(std::move(limits)) {
  require<ConfigError>(beams >= 1, "a beam search needs at least 1 beam, got {}", beams);
}

double BeamSearch::score(double sum, std::int64_t length) const {
  return sum / std::pow(static_cast<double>(length), length_penalty_);
}

bool BeamSearch::advance(std::span<const float> logits) {
  struct Candidate {
    double sum;
    std::int32_t beam, id;
  };
  const std::size_t vocabulary = logits.size() / running_.size();
  std::vector<Candidate> candidates;
  for (std::size_t b = 0; b < running_.size(); ++b) {
    const auto row = logits.subspan(b * vocabulary, vocabulary);
    const double base = running_[b].sum - log_of_sum(row);
    for (std::size_t i = 0; i < vocabulary; ++i)
      candidates.push_back({base + row[i], static_cast<std::int32_t>(b), static_cast<std::int32_t>(i)});
  }
  const std::size_t count = std::min(candidates.size(), 2 * beams_);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates.end(), [](const Candidate& a, const Candidate& b) {
                      if (a.sum != b.sum) return a.sum > b.sum;
                      return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
                    });
  candidates.resize(count);
  ++length_;
  const bool last = length_ >= limits_.max_tokens;
  std::vector<Running> next;
  tokens_.clear();
  parents_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const bool ends = limits_.ends(c.id);
    std::vector<std::int32_t> ids = running_[static_cast<std::size_t>(c.beam)].ids;
    if (!ends) ids.push_back(c.id);
    if (ends || last) {
      if (i < beams_) kept_.push_back({std::move(ids), ends, score(c.sum, length_)});
    } else if (next.size() < beams_) {
      next.push_back({std::move(ids), c.sum});
      tokens_.push_back(c.id);
      parents_.push_back(c.beam);
    }
  }
  std::stable_sort(kept_.begin(), kept_.end(),
                   [](const FoundTarget& a, const FoundTarget& b) { return a.score > b.score; });
  if (kept_.size() > beams_) kept_.resize(beams_);
  running_ = std::move(next);
  if (running_.empty()) return false;
  return kept_.size() < beams_ || score(running_.front().sum, length_) > kept_.back().score;
}

}  // namespace stoa::infer
