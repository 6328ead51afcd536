#include "infer/token_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/most_likely.h"

namespace stoa::infer {
namespace {

struct Likelier {
  std::span<const float> scores;
  bool operator()(std::int32_t a, std::int32_t b) const {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  }
};

// Ids by their scores, the highest first, sorted as far as they are asked for: of a vocabulary of tens of
// thousands a draw mostly needs a few.
class Ranking {
 public:
  Ranking(std::vector<std::int32_t>& ids, std::span<const float> scores) : ids_(ids), likelier_{scores} {}

  std::int32_t operator[](std::size_t place) {
    if (place >= sorted_) sort_to(std::max<std::size_t>(place + 1, std::max<std::size_t>(64, 4 * sorted_)));
    return ids_[place];
  }
  // Forgets all but the first `count`.
  void keep(std::size_t count) {
    if (count >= ids_.size()) return;
    std::nth_element(ids_.begin(), at(count), ids_.end(), likelier_);
    ids_.resize(count);
  }

 private:
  std::vector<std::int32_t>::iterator at(std::size_t place) {
    return ids_.begin() + static_cast<std::ptrdiff_t>(place);
  }
  void sort_to(std::size_t end) {
    end = std::min(end, ids_.size());
    if (end < ids_.size()) std::nth_element(at(sorted_), at(end), ids_.end(), likelier_);
    std::sort(at(sorted_), at(end), likelier_);
    sorted_ = end;
  }

  std::vector<std::int32_t>& ids_;
  const Likelier likelier_;
  std::size_t sorted_ = 0;
};

constexpr std::size_t kLlamaCppWindow = 64;

}  // namespace

SamplerOrder sampler_order_of(std::string_view name) {
  const auto* const found = std::find(std::begin(kSamplerOrderNames), std::end(kSamplerOrderNames), name);
  require<ConfigError>(found != std::end(kSamplerOrderNames),
                       "unknown order of samplers '{}': hf, vllm and llama.cpp are known", name);
  return static_cast<SamplerOrder>(found - std::begin(kSamplerOrderNames));
}

void validate(const SamplingOptions& o) {
  require<ConfigError>(o.temperature >= 0 && std::isfinite(o.temperature),
                       "temperature must be at least 0, got {}", o.temperature);
  require<ConfigError>(o.top_k >= 0, "top-k must be at least 0 (0: all tokens), got {}", o.top_k);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "top-p must be above 0 and at most 1, got {}", o.top_p);
  require<ConfigError>(o.min_p >= 0 && o.min_p <= 1, "min-p must be between 0 and 1, got {}", o.min_p);
  require<ConfigError>(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
                       "repetition-penalty must be above 0 (1: none), got {}", o.repetition_penalty);
  for (const double penalty : {o.presence_penalty, o.frequency_penalty})
    require<ConfigError>(std::isfinite(penalty), "a penalty is not a number");
  for (const auto& word : o.bad_words)
    require<ConfigError>(!word.empty(), "bad_words_ids: a word without tokens");
}

TokenSampler::TokenSampler(const SamplingOptions& options, int choice)
    : options_(options),
      key_(philox_key(options.seed, RandomPurpose::kSampling,
                      choice == 0 ? "tokens" : fmt::format("tokens.{}", choice))) {
  validate(options);
}

std::int32_t likeliest(std::span<const float> logits) {
  // Blocks whose lanes a compiler turns into vectors; then the first of the best in the first best block.
  constexpr std::size_t kLanes = 16, kBlock = ops::kMostLikelyBlock;
  const auto largest = [](std::span<const float> block) {
    std::array<float, kLanes> lanes;
    lanes.fill(block[0]);
    std::size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = block[i + l] > lanes[l] ? block[i + l] : lanes[l];
    for (; i < block.size(); ++i) lanes[0] = std::max(lanes[0], block[i]);
    return *std::max_element(lanes.begin(), lanes.end());
  };
  std::size_t best = 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float here = largest(logits.subspan(begin, std::min(kBlock, logits.size() - begin)));
    if (here > highest) highest = here, best = begin;
  }
  while (best < logits.size() && logits[best] < highest) ++best;
  return static_cast<std::int32_t>(best);
}

bool TokenSampler::too_early() const {
  return std::ssize(drawn_) < options_.min_tokens && !options_.ends.empty();
}

bool TokenSampler::penalises_counts() const {
  return options_.presence_penalty != 0 || options_.frequency_penalty != 0;
}

bool TokenSampler::changes_logits(bool counts) const {
  const SamplingOptions& o = options_;
  return counts || too_early() || o.repetition_penalty != 1.0 || !o.suppressed.empty() ||
         !o.suppressed_first.empty() || !o.bad_words.empty() || !o.logit_bias.empty();
}

bool TokenSampler::takes_most_likely() const {
  return (options_.greedy || options_.temperature == 0) && !changes_logits(penalises_counts());
}

std::span<const float> TokenSampler::adjusted(std::span<const float> logits,
                                              std::span<const std::int32_t> seen,
                                              const AllowedTokens* allowed) {
  const SamplingOptions& o = options_;
  const bool llama = o.order == SamplerOrder::kLlamaCpp;
  const bool counts = penalises_counts() && (llama ? !seen.empty() : !drawn_.empty());
  if (!changes_logits(counts) && allowed == nullptr) return logits;
  scores_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : o.logit_bias)
    if (static_cast<std::size_t>(id) < scores_.size()) scores_[id] += bias;
  const auto recent = llama ? seen.last(std::min(seen.size(), kLlamaCppWindow)) : seen;
  if (o.repetition_penalty != 1.0) repeat_less(recent);
  if (counts) count_against(llama ? recent : std::span<const std::int32_t>(drawn_));
  const auto forbid = [&](std::int32_t id) {
    if (static_cast<std::size_t>(id) < scores_.size()) scores_[id] = -std::numeric_limits<float>::infinity();
  };
  for (const std::int32_t id : o.suppressed) forbid(id);
  if (drawn_.empty())
    for (const std::int32_t id : o.suppressed_first) forbid(id);
  if (too_early())
    for (const std::int32_t id : o.ends) forbid(id);
  for (const auto& word : o.bad_words) {
    const auto begin = std::span(word).first(word.size() - 1);
    if (seen.size() >= begin.size() && std::ranges::equal(begin, seen.last(begin.size())))
      forbid(word.back());
  }
  if (allowed != nullptr) keep(*allowed);
  return scores_;
}

void TokenSampler::repeat_less(std::span<const std::int32_t> seen) {
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  order_.assign(seen.begin(), seen.end());  // a repeated id is penalised once
  std::sort(order_.begin(), order_.end());
  order_.erase(std::unique(order_.begin(), order_.end()), order_.end());
  for (const std::int32_t id : order_) {
    const float x = scores_[id];
    scores_[id] = x > 0 ? x / penalty : x * penalty;
  }
}

void TokenSampler::count_against(std::span<const std::int32_t> tokens) {
  order_.assign(tokens.begin(), tokens.end());
  std::sort(order_.begin(), order_.end());
  for (auto from = order_.begin(); from != order_.end();) {
    const auto to = std::upper_bound(from, order_.end(), *from);
    scores_[*from] -= static_cast<float>(options_.presence_penalty +
                                         options_.frequency_penalty * static_cast<double>(to - from));
    from = to;
  }
}

void TokenSampler::keep(const AllowedTokens& allowed) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  order_.clear();
  for (const std::int32_t id : allowed.ends)
    if (static_cast<std::size_t>(id) < scores_.size()) order_.push_back(id);
  std::vector<float> ends;
  for (const std::int32_t id : order_) ends.push_back(allowed.may_end ? scores_[id] : kNever);
  for (std::size_t begin = 0; begin < scores_.size(); begin += 64) {
    const std::uint64_t word = begin / 64 < allowed.bits.size() ? allowed.bits[begin / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
    const std::size_t end = std::min(begin + 64, scores_.size());
    for (std::size_t i = begin; i < end; ++i)
      if ((word >> (i - begin) & 1) == 0) scores_[i] = kNever;
  }
  for (std::size_t i = 0; i < order_.size(); ++i) scores_[order_[i]] = ends[i];
}

std::int32_t TokenSampler::next(std::span<const float> logits, std::span<const std::int32_t> seen,
                                const AllowedTokens* allowed) {
  const std::span<const float> scores = adjusted(logits, seen, allowed);
  const std::int32_t id = draw(scores);
  if (allowed != nullptr && scores[id] == -std::numeric_limits<float>::infinity()) return -1;
  drawn_.push_back(id);
  return id;
}

std::int32_t TokenSampler::draw(std::span<const float> scores) {
  const std::int32_t best = likeliest(scores);
  if (options_.greedy || options_.temperature == 0) return best;

  const double highest = scores[best];
  // What is cut off depends on probabilities at this temperature.
  const bool llama = options_.order == SamplerOrder::kLlamaCpp;
  const double cut = llama ? 1 : options_.temperature;
  // Tokens less likely than e^-80 of the best cannot be drawn with 32 random bits.
  const double floor = highest - 80.0 * std::max(cut, options_.temperature);
  order_.clear();
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] >= floor) order_.push_back(static_cast<std::int32_t>(i));
  if (order_.empty()) return best;  // not numbers
  const auto weight = [&](std::int32_t id, double temperature) {
    return static_cast<double>(std::exp(static_cast<float>((scores[id] - highest) / temperature)));
  };
  if (options_.order == SamplerOrder::kVllm && options_.min_p > 0)
    std::erase_if(order_, [&](std::int32_t id) { return weight(id, cut) < options_.min_p; });
  Ranking ranking(order_, scores);
  if (options_.top_k > 0) ranking.keep(static_cast<std::size_t>(options_.top_k));
  double sum = 0;  // of what may be drawn
  for (const std::int32_t id : order_) sum += weight(id, cut);
  std::size_t kept = order_.size();
  if (options_.top_p < 1 || options_.min_p > 0) {
    const double enough = options_.top_p < 1 ? options_.top_p * sum : std::numeric_limits<double>::infinity();
    sum = 0;
    for (kept = 0; kept < order_.size() && sum < enough; ++kept) {
      const double next = weight(ranking[kept], cut);
      if (kept > 0 && next < options_.min_p) break;  // the best one weighs 1
      sum += next;
    }
  }
  if (llama) {
    sum = 0;
    for (std::size_t i = 0; i < kept; ++i) sum += weight(ranking[i], options_.temperature);
  }
  const double draw = static_cast<double>(philox_word(key_, draws_++)) * 0x1p-32 * sum;
  double reached = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    reached += weight(ranking[i], options_.temperature);
    if (draw < reached) return ranking[i];
  }
  return ranking[kept - 1];
}

}  // namespace stoa::infer
