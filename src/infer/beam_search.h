// Beam search for the most likely target of a source. It is independent of models: it sees only logits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace stoa::infer {

struct SearchLimits {
  std::int64_t max_tokens = 128;
  std::function<bool(std::int32_t)> ends;  // whether a token ends a target
};

struct FoundTarget {
  std::vector<std::int32_t> ids;  // without the token that ended it
  bool ended = false;             // ended by such a token, not by its length
  double score = 0;               // sum of log-probabilities / length^penalty
};

// Sutskever et al. 2014, section 3.2, by the rules of transformers with early_stopping false:
// among the 2 x beams most likely continuations, those of the first `beams` that end are kept by score, the
// others stay running. It ends when no running target, at its present length, scores better than the worst of
// `beams` kept ones. Ties go to the earlier beam and the lower id.
class BeamSearch {
 public:
  // ConfigError: no beam.
  BeamSearch(std::int64_t beams, double length_penalty, SearchLimits limits);

  // `logits` [targets, vocabulary] of the running targets; at first a single one, which has only its start
  // token. False: the search has ended.
  bool advance(std::span<const float> logits);
  // After advance(): the next token of each running target, and the previous target that it extends.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }
  const FoundTarget& best() const { return kept_.front(); }
  std::int64_t beams() const { return static_cast<std::int64_t>(beams_); }
  const SearchLimits& limits() const { return limits_; }
  std::int64_t length() const { return length_; }  // of the running targets

 private:
  struct Running {
    std::vector<std::int32_t> ids;
    double sum = 0;  // of log-probabilities
  };
  double score(double sum, std::int64_t length) const;

  std::size_t beams_;
  double length_penalty_;
  SearchLimits limits_;
  std::int64_t length_ = 0;
  std::vector<Running> running_ = std::vector<Running>(1);
  std::vector<FoundTarget> kept_;  // best first
  std::vector<std::int32_t> tokens_, parents_;
};

}  // namespace stoa::infer
