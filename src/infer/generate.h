// Text from a prompt, piece by piece.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/decoder.h"
#include "infer/engine/request.h"
#include "infer/token_sampler.h"
#include "token/tokenizer.h"

namespace stoa::infer {

struct GenerateOptions {
  std::int64_t max_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;         // texts that end the answer; not part of it
  std::vector<std::int32_t> end_tokens;  // ids that end it (the tokenizer's end of text is always among them)
};

struct GenerateResult {
  std::vector<std::int32_t> prompt, answer;  // ids
  EndReason reason = EndReason::kLength;
  double prompt_seconds = 0, answer_seconds = 0;
};

// A model from which tokens are sampled.
struct TokenFeed {
  // Appends tokens; returns the logits after the last one, over the vocabulary.
  std::function<std::span<const float>(std::span<const std::int32_t>)> feed;
  std::function<std::int64_t()> room;  // tokens that may still be fed
};
TokenFeed feed_of(Decoder& decoder, const Decoder::Parts& parts);

// Whether `id` ends an answer.
bool ends_answer(std::int32_t id, const token::Tokenizer& tokenizer, const GenerateOptions& options);

// Calls `emit` with text as soon as it is final (whole characters, no prefix of a stop text); `emit` returns
// false to end. Prompts longer than the context lose their beginning. DataError: an empty prompt, and a
// tokenizer without bos and eod.
GenerateResult generate(Decoder& decoder, const Decoder::Parts& parts, const token::Tokenizer& tokenizer,
                        std::string_view prompt, const GenerateOptions& options,
                        const std::function<bool(std::string_view)>& emit);
// The same from ids, appended to the tokens already fed (a conversation continues). `earlier`: those tokens,
// for the repetition penalty.
GenerateResult generate_ids(const TokenFeed& model, const token::Tokenizer& tokenizer,
                            std::vector<std::int32_t> prompt, const GenerateOptions& options,
                            const std::function<bool(std::string_view)>& emit,
                            std::span<const std::int32_t> earlier = {});

}  // namespace stoa::infer
