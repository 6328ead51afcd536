#include "infer/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace stoa::infer {

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
  require<ConfigError>(o.penalty_window >= 0, "penalty_window must be at least 0, got {}", o.penalty_window);
  require<ConfigError>(o.further.typical_p > 0 && o.further.typical_p <= 1,
                       "typical-p must be above 0 and at most 1, got {}", o.further.typical_p);
  require<ConfigError>(std::isfinite(o.further.top_n_sigma), "top-n-sigma is not a number");
  for (const double p : {o.further.xtc_probability, o.further.xtc_threshold})
    require<ConfigError>(p >= 0 && p <= 1, "a probability of XTC must be between 0 and 1, got {}", p);
  for (const double penalty : {o.presence_penalty, o.frequency_penalty})
    require<ConfigError>(std::isfinite(penalty), "a penalty is not a number");
  for (const auto& word : o.bad_words)
    require<ConfigError>(!word.empty(), "bad_words_ids: a word without tokens");
}

TokenSampler::TokenSampler(const SamplingOptions& options, int choice)
    : options_(options),
      key_(philox_key(options.seed, RandomPurpose::kSampling,
                      choice == 0 ? "tokens" : fmt::format("tokens.{}", choice))),
      xtc_key_(philox_key(options.seed, RandomPurpose::kSampling, fmt::format("xtc.{}", choice))) {
  validate(options);
  if (is_greedy()) return;
  if (options.further.any()) {
    draw_ = ops::token_draw({.temperature = options.temperature});
    return;
  }
  draw_ = ops::token_draw({.temperature = options.temperature,
                           .top_k = options.top_k,
                           .top_p = options.top_p,
                           .min_p = options.min_p,
                           .min_p_first = options.order == SamplerOrder::kVllm,
                           .cuts_at_temperature = options.order != SamplerOrder::kLlamaCpp});
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

ops::TokenDraw TokenSampler::next_draw() const {
  ops::TokenDraw draw = draw_;
  draw.word = philox_word(key_, draws_);
  return draw;
}

RowWish TokenSampler::wish() const {
  if (changes_logits(penalises_counts()) || (options_.further.any() && !is_greedy())) return {};
  if (is_greedy()) return {.kind = RowWish::Kind::kMostLikely};
  return {.kind = RowWish::Kind::kDrawn, .draw = next_draw()};
}

void TokenSampler::take(std::int32_t id) {
  if (!is_greedy()) ++draws_;
  drawn_.push_back(id);
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
  const auto recent =
      llama ? seen.last(std::min(seen.size(), static_cast<std::size_t>(o.penalty_window))) : seen;
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

std::span<const float> TokenSampler::cut(std::span<const float> scores) {
  const SamplingOptions& o = options_;
  if (is_greedy() || !o.further.any()) return scores;
  if (scores.data() != scores_.data()) scores_.assign(scores.begin(), scores.end());
  const bool llama = o.order == SamplerOrder::kLlamaCpp;
  const double temperature = llama ? 1 : o.temperature;
  const auto keep_drawable = [&](ops::DrawOptions cuts) {
    cuts.temperature = o.temperature;
    cuts.cuts_at_temperature = !llama;
    host_.keep(scores_, ops::token_draw(cuts), kept_);
    for (std::size_t i = 0; i < scores_.size(); ++i)
      if (!kept_[i]) scores_[i] = -std::numeric_limits<float>::infinity();
  };
  const auto typical = [&] {
    if (o.further.typical_p < 1) cut_untypical(scores_, o.further.typical_p, temperature);
  };
  if (o.further.top_n_sigma > 0) cut_below_sigmas(scores_, o.further.top_n_sigma);
  if (llama) {
    keep_drawable({.top_k = o.top_k});
    typical();
    keep_drawable({.top_p = o.top_p, .min_p = o.min_p});
  } else {
    keep_drawable({.top_k = o.top_k,
                   .top_p = o.top_p,
                   .min_p = o.min_p,
                   .min_p_first = o.order == SamplerOrder::kVllm});
    typical();
  }
  if (static_cast<double>(philox_word(xtc_key_, draws_)) * 0x1p-32 < o.further.xtc_probability)
    exclude_top_choices(scores_, o.further.xtc_threshold, temperature);
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

void TokenSampler::processed(std::span<const float> logits, std::span<const std::int32_t> seen,
                             const AllowedTokens* allowed, std::vector<float>& out) {
  const std::span<const float> scores = cut(adjusted(logits, seen, allowed));
  out.assign(scores.begin(), scores.end());
  if (is_greedy()) return;
  host_.keep(scores, next_draw(), kept_);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kept_[i] ? static_cast<float>(out[i] / options_.temperature)
                      : -std::numeric_limits<float>::infinity();
}

std::int32_t TokenSampler::next(std::span<const float> logits, std::span<const std::int32_t> seen,
                                const AllowedTokens* allowed) {
  const std::span<const float> scores = cut(adjusted(logits, seen, allowed));
  const std::int32_t id = is_greedy() ? likeliest(scores) : host_.draw(scores, next_draw());
  if (allowed != nullptr && scores[id] == -std::numeric_limits<float>::infinity()) return -1;
  take(id);
  return id;
}

}  // namespace stoa::infer
