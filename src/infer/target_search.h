// How the target of a source goes on, token by token: drawn (or the likeliest every time), or as a beam of
// several at once. Searches know nothing of models.
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
  bool ended = false;             // by such a token, not by its length
  double score = 0;               // of a beam: sum of log-probabilities / length^penalty
};

class TargetSearch {
 public:
  virtual ~TargetSearch() = default;
  // `logits` [targets, vocabulary] of the targets under way; at first of one, which has its start alone.
  // False: the search has ended.
  virtual bool advance(std::span<const float> logits) = 0;
  // After advance(): what the targets that continue are fed, and which target before it each continues from.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }
  virtual FoundTarget best() const = 0;

 protected:
  std::vector<std::int32_t> tokens_, parents_;
};

// One target, its tokens from a sampler.
class DrawnTarget final : public TargetSearch {
 public:
  DrawnTarget(const SamplingOptions& sampling, SearchLimits limits, std::int32_t start);
  bool advance(std::span<const float> logits) override;
  FoundTarget best() const override { return found_; }

 private:
  TokenSampler sampler_;
  SearchLimits limits_;
  std::vector<std::int32_t> seen_;
  FoundTarget found_;
};

// The `beams` likeliest targets are followed (Sutskever et al. 2014, section 3.2). Of the 2 x beams likeliest
// continuations, those among the first `beams` that end are kept by score; the others go on. It ends when no
// target under way is better, at its present length, than the worst of `beams` kept: the rules of
// transformers' beam search with early_stopping false. Ties go to the earlier beam and the lower id.
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
