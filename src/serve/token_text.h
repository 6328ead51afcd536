// Log-probabilities as OpenAI's two interfaces and llama-server write them.
#pragma once

#include "serve/answer_text.h"
#include "serve/request_body.h"

namespace stoa::serve {

// The text of a token alone; one that is not UTF-8 by itself as "bytes:\xe2\x82".
std::string token_name(const token::Tokenizer& tokenizer, std::int32_t id);

// /v1/completions: {tokens, token_logprobs, top_logprobs, text_offset}, grown token by token.
class CompletionScores {
 public:
  // `tokenizer` outlives this.
  explicit CompletionScores(const token::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  // The first token of a text: nothing precedes it, so it has no probability.
  void add_first(std::int32_t id, std::int64_t offset);
  void add(const infer::ScoredToken& score, std::int64_t offset);
  Json json() const;

 private:
  const token::Tokenizer* tokenizer_;
  Json tokens_ = Json::array(), probabilities_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

// Of chat completions: {token, logprob, bytes, top_logprobs}; with `ids`, as llama-server writes it: each has
// its id, and with `probabilities` {prob, top_probs} instead.
Json chat_score(const token::Tokenizer& tokenizer, const infer::ScoredToken& score, std::size_t top,
                bool ids = false, bool probabilities = false);

}  // namespace stoa::serve
