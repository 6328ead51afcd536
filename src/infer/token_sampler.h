// Chooses the next token from logits, on the host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "infer/further_cuts.h"
#include "infer/row_wish.h"
#include "ops/host_draw.h"

namespace stoa::infer {

// Whose order of steps. kHuggingFace: penalties, temperature, top-n-sigma, top-k, top-p, min-p, typical, XTC.
// kVllm: min-p comes before top-k and top-p. kLlamaCpp: penalties count the last `penalty_window` tokens of
// prompt and answer; top-n-sigma, top-k, typical, top-p, min-p and XTC cut at temperature 1, and the
// temperature divides what is left.
enum class SamplerOrder : std::uint8_t { kHuggingFace, kVllm, kLlamaCpp };
inline constexpr const char* kSamplerOrderNames[] = {"hf", "vllm", "llama.cpp"};
// ConfigError: not one of the names.
SamplerOrder sampler_order_of(std::string_view name);

struct SamplingOptions {
  bool greedy = false;              // the most likely token; ties go to the lower id
  double temperature = 1.0;         // 0 is greedy
  std::int64_t top_k = 0;           // 0: all
  double top_p = 1.0;               // smallest set of most likely tokens whose probability reaches top_p
  double min_p = 0.0;               // tokens at least min_p times as likely as the most likely
  FurtherCuts further = {};         // none of them where the most likely token is taken
  double repetition_penalty = 1.0;  // > 1 makes tokens seen before less likely (Keskar et al. 2019, CTRL)
  std::uint64_t seed = 0;
  std::vector<std::int32_t> suppressed = {};              // ids that are never drawn
  std::vector<std::int32_t> suppressed_first = {};        // nor as the first token of an answer
  std::vector<std::vector<std::int32_t>> bad_words = {};  // ids that never stand one after the other
  // Subtracted from the logit of a token that was drawn (not of the prompt's) once, and once per occurrence.
  double presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};  // added to the logits of these ids
  std::int64_t min_tokens = 0;                                  // none of `ends` is drawn before these many
  std::vector<std::int32_t> ends = {};
  SamplerOrder order = SamplerOrder::kHuggingFace;
  std::int64_t penalty_window = 64;  // of kLlamaCpp
};

// What a constraint allows next. An id of `ends` is allowed where the text may end, and only there.
struct AllowedTokens {
  std::span<const std::uint64_t> bits;  // id i is bit i % 64 of word i / 64; ids beyond are not allowed
  bool may_end = false;
  std::span<const std::int32_t> ends = {};
};

// ConfigError names the option, its value and its range.
void validate(const SamplingOptions& options);

using ops::likeliest;

class TokenSampler {
 public:
  // `choice`: of several answers to one prompt, each draws its own numbers.
  explicit TokenSampler(const SamplingOptions& options, int choice = 0);

  // `logits` of the next position, `seen`: prompt and answer so far. Bias comes first, then repetition
  // penalty (positive logits are divided, negative ones multiplied), frequency and presence penalties,
  // forbidden tokens, and what the options' order says. The n-th draw of a sequence is a function of (seed,
  // choice, n) alone. Ids beyond the vocabulary are ignored. Of `allowed` (null: all
  // tokens) no other token comes; -1: every one of them is forbidden by the options, and nothing was drawn.
  std::int32_t next(std::span<const float> logits, std::span<const std::int32_t> seen,
                    const AllowedTokens* allowed = nullptr);
  // The logits of what next() draws from with the same arguments, in `out`: -infinity where the options or
  // `allowed` exclude a token, else divided by the temperature (not where the most likely token is taken).
  void processed(std::span<const float> logits, std::span<const std::int32_t> seen,
                 const AllowedTokens* allowed, std::vector<float>& out);
  // What next() returns where no constraint limits it, if that depends on the logits and their vocabulary
  // alone: the most likely token or one that is drawn from them. Whoever finds it elsewhere calls take() in
  // place of next(). Otherwise: the logits.
  RowWish wish() const;
  void take(std::int32_t id);

 private:
  // The logits, with what was seen made less likely and what must not come impossible; may be `logits`
  // themselves.
  std::span<const float> adjusted(std::span<const float> logits, std::span<const std::int32_t> seen,
                                  const AllowedTokens* allowed);
  // What is left of the scores by all cuts, where some are FurtherCuts; else the scores, which HostDraw cuts.
  std::span<const float> cut(std::span<const float> scores);
  bool too_early() const;  // the answer may not end yet
  bool penalises_counts() const;
  bool changes_logits(bool counts) const;                    // counts: what was seen counts against a token
  void repeat_less(std::span<const std::int32_t> seen);      // the repetition penalty
  void count_against(std::span<const std::int32_t> tokens);  // presence and frequency penalties
  void keep(const AllowedTokens& allowed);                   // makes all other scores impossible
  bool is_greedy() const { return options_.greedy || options_.temperature == 0; }
  ops::TokenDraw next_draw() const;

  SamplingOptions options_;
  PhiloxKey key_, xtc_key_;
  ops::TokenDraw draw_;  // without its word
  ops::HostDraw host_;
  std::vector<bool> kept_;
  std::uint64_t draws_ = 0;
  std::vector<std::int32_t> drawn_;
  std::vector<float> scores_;
  std::vector<std::int32_t> order_;
};

}  // namespace stoa::infer
