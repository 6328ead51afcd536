#include "serve/token_text.h"

#include <cmath>

#include "token/stream_decoder.h"

namespace stoa::serve {
namespace {

Json bytes_of(const token::Tokenizer& tokenizer, std::int32_t id) {
  Json out = Json::array();
  for (const char c : tokenizer.token_bytes(id)) out.push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace

std::string token_name(const token::Tokenizer& tokenizer, std::int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  std::string storage;
  if (token::valid_utf8(bytes, storage) == bytes) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

void CompletionScores::add_first(std::int32_t id, std::int64_t offset) {
  tokens_.push_back(token_name(*tokenizer_, id));
  probabilities_.push_back(nullptr);
  top_.push_back(nullptr);
  offsets_.push_back(offset);
}

void CompletionScores::add(const infer::ScoredToken& score, std::int64_t offset) {
  const std::string name = token_name(*tokenizer_, score.token.id);
  tokens_.push_back(name);
  probabilities_.push_back(score.token.logprob);
  Json candidates = Json::object();
  // Tokens with the same text share an entry; the likelier one comes first.
  for (const auto& [id, log_probability] : score.top)
    candidates.emplace(token_name(*tokenizer_, id), log_probability);
  candidates.emplace(name, score.token.logprob);
  top_.push_back(std::move(candidates));
  offsets_.push_back(offset);
}

Json CompletionScores::json() const {
  return {{"tokens", tokens_},
          {"token_logprobs", probabilities_},
          {"top_logprobs", top_},
          {"text_offset", offsets_}};
}

Json chat_score(const token::Tokenizer& tokenizer, const infer::ScoredToken& score, std::size_t top, bool ids,
                bool probabilities) {
  const auto entry = [&](std::int32_t id, float log_probability) {
    std::string storage;
    Json out{
        {"token", token::valid_utf8(tokenizer.token_bytes(id), storage)},
        {probabilities ? "prob" : "logprob", probabilities ? std::exp(log_probability) : log_probability},
        {"bytes", bytes_of(tokenizer, id)}};
    if (ids) out["id"] = id;
    return out;
  };
  Json out = entry(score.token.id, score.token.logprob);
  Json candidates = Json::array();
  for (std::size_t i = 0; i < std::min(top, score.top.size()); ++i)
    candidates.push_back(entry(score.top[i].id, score.top[i].logprob));
  out[probabilities ? "top_probs" : "top_logprobs"] = std::move(candidates);
  return out;
}

}  // namespace stoa::serve
