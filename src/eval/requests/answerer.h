// Who answers the requests of an evaluation: a model in files, or one behind a server.
#pragma once

#include <string>
#include <vector>

#include "eval/requests/encoded_requests.h"
#include "eval/requests/prompt.h"
#include "eval/ruler/making.h"

namespace stoa::eval {

class Answerer {
 public:
  virtual ~Answerer() = default;

  // What its answers depend on in addition to the requests: those of another are not taken from a journal.
  virtual std::string identity() = 0;
  // Chats as the context of a request. ConfigError: it has no chat template.
  virtual ChatFunction chat() = 0;
  // How many tokens a text is to it; null: it has no tokenizer.
  virtual TokenCount tokens(const ScoringOptions& options) = 0;

  struct Facts {
    std::size_t truncated = 0;  // requests whose beginning was cut off
    std::int64_t window = 0;    // tokens; 0: not known
    std::string dtype;          // "" : not known
  };
  // `generation`: of each request, or null. Calls `told` from one thread at a time.
  virtual Facts answer(std::vector<Request> requests, std::vector<const infer::GenerateOptions*> generation,
                       const ScoringOptions& options, const AnswerTold& told) = 0;
};

}  // namespace stoa::eval
