// Token losses of whole texts, or of targets of encoder-decoders, by the engine's passes: many texts go
// through a model at once, and no logits are kept. Where the model has virtual tokens (nn/adapter_policy.h),
// they are put in front of every text here: callers do not see them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/engine/paged_decoder.h"
#include "infer/token_pair.h"

namespace stoa::infer {

// Tokens of the longest text that has losses.
std::int64_t longest_text(const PassLimits& limits);

// losses[t] = -ln p(labels[t] | tokens of the same text up to t), for concatenated texts: `lengths` add up to
// tokens.size(), each at most longest_text().
void text_losses(PassModel& model, std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                 std::span<const std::int64_t> lengths, std::span<float> losses);
// -ln p of every token of a text after its first, given those before it; at most longest_text() + 1 tokens.
std::vector<float> text_losses(PassModel& model, std::span<const std::int32_t> ids);

// -ln p of every token of the targets, given the source and the tokens before it.
std::vector<std::vector<float>> pair_losses(PassModel& model, std::span<const TokenPair> pairs);

// What a model is loaded for that is measured, and writes nothing.
struct LossUse {
  std::optional<std::int64_t> text_tokens = {};  // longest text; none: the model's positions
  std::int64_t pass_tokens = 4096;
  bool tokenizer = true;            // is one needed? It is read before the weights
  std::optional<DType> cache = {};  // EngineUse::cache
};
// ConfigError: not a model that continues a text.
EngineUse use_for_losses(OpenModel& model, const LossUse& use);
// Errors of load_paged_decoder.
std::unique_ptr<PagedDecoder> load_for_losses(OpenModel& model, const LossUse& use);
// An encoder-decoder's, for pairs at most as long as these. `use.text_tokens` is not read. ConfigError:
// another model.
EngineUse use_for_pairs(OpenModel& model, std::span<const TokenPair> pairs, const LossUse& use);
std::unique_ptr<PagedDecoder> load_for_pairs(OpenModel& model, std::span<const TokenPair> pairs,
                                             const LossUse& use);

}  // namespace stoa::infer
