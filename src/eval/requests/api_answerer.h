// A model behind a server of OpenAI's API, asked as lm-evaluation-harness's local-completions and
// local-chat-completions ask it: log-likelihoods by echo with logprobs, rows of token ids.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "eval/requests/answerer.h"
#include "token/tokenizer.h"

namespace stoa::eval {

// What a server answered; status 0: there was no answer, `body` says why.
struct ApiReply {
  int status = 0;
  std::string body;
};

struct ApiOptions {
  std::string server;  // its address, for messages and the journal
  std::string model;   // its name there
  // Chats are sent as messages, and only answers that are generated can be asked for.
  bool chat = false;
  int at_once = 8;  // requests
  int tries = 4;    // of a request that fails for now, with growing waits
  double wait = 1;  // seconds before the second try; doubled after each
};

class ApiAnswerer final : public Answerer {
 public:
  // Asks for `path` ("/completions") with a body, or without one ("/models"). Each thread has one of its own.
  using Ask = std::function<ApiReply(const std::string& path, const Json* body)>;

  // `tokenizer`: of the model; none: only chats.
  ApiAnswerer(ApiOptions options, std::optional<token::Tokenizer> tokenizer, std::function<Ask()> connect);

  std::string identity() override;
  ChatFunction chat() override;
  TokenCount tokens(const ScoringOptions& options) override;
  // ConfigError: the tokenizer is missing, a request that a chat cannot ask, or the server refuses one.
  // IoError: it does not answer, or not as expected.
  Facts answer(std::vector<Request> requests, std::vector<const infer::GenerateOptions*> generation,
               const ScoringOptions& options, const AnswerTold& told) override;

 private:
  Json asked(const Ask& ask, const std::string& path, const Json* body) const;
  // Tokens that the server says its model may see; none: it does not.
  std::optional<std::int64_t> served_window() const;
  void score(const Ask& ask, EncodedText& text, Answer& answer) const;
  void generate(const Ask& ask, const EncodedText& text, const infer::GenerateOptions& how,
                std::uint64_t seed, Answer& answer) const;
  void talk(const Ask& ask, const Request& request, const infer::GenerateOptions& how, Answer& answer) const;
  void share_out(std::size_t tasks, const std::function<void(const Ask& ask, std::size_t task)>& body) const;

  const ApiOptions options_;
  const std::optional<token::Tokenizer> tokenizer_;
  const std::function<Ask()> connect_;
};

}  // namespace stoa::eval
