// Strategies that generate the target of a source token by token: sampling (or greedy decoding) and beam
// search. They are independent of models: they see only logits.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "infer/token_sampler.h"

namespace stoa::infer {

struct SearchLimits {
  std::int64_t max_tokens = 128;
  std::function<bool(std::int32_t)> ends;  // whether a token ends a target
};

struct FoundTarget {
  std::vector<std::int32_t> ids;  // without the token that ended it
  bool ended = false;             // ended by such a token, not by its length
  double score = 0;               // of a beam: sum of log-probabilities / length^penalty
};

class TargetSearch {
 public:
  virtual ~TargetSearch() = default;
  // `logits` [targets, vocabulary] of the running targets; at first a single one, which has only its start
  // token. False: the search has ended.
  virtual bool advance(std::span<const float> logits) = 0;
  // After advance(): the next token of each running target, and the previous target that it extends.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }
  virtual FoundTarget best() const = 0;

 protected:
  std::vector<std::int32_t> tokens_, parents_;
};

// A single target whose tokens come from a sampler.
class DrawnTarget final : public TargetSearch {
 public:
  DrawnTarget(const SamplingOptions& sampling, SearchLimits limits, std::int32_t start);
  bool advance(std::span<const float> logits) override;
  FoundTarget best() const override { return found_; }
  const FoundTarget& found() const { return found_; }

 private:
  TokenSampler sampler_;
  SearchLimits limits_;
  std::vector<std::int32_t> seen_;
  FoundTarget found_;
};

// Beam search (Sutskever et al. 2014, section 3.2) by the rules of transformers with early_stopping false:
// among the 2 x beams most likely continuations, those of the first `beams` that end are kept by score, the
// others stay running. It ends when no running target, at its present length, scores better than the worst of
// `beams` kept ones. Ties go to the earlier beam and the lower id.
class BeamSearch final : public TargetSearch {
 public:
  BeamSearch(std::int64_t beams, double length_penalty, SearchLimits limits);
  bool advance(std::span<const float> logits) override;
  FoundTarget best() const override { return kept_.front(); }

 private:
  struct Running {
    std::vector<std::int32_t> ids;
    double sum = 0;  // of log-probabilities
  };
  double score(double sum, std::int64_t length) const;

  const std::size_t beams_;
  const double length_penalty_;
  SearchLimits limits_;
  std::int64_t length_ = 0;
  std::vector<Running> running_ = std::vector<Running>(1);
  std::vector<FoundTarget> kept_;  // best first
};

}  // namespace stoa::infer
