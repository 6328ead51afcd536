// What a model is asked about a document, and what it answers.
#pragma once

#include <string>
#include <vector>

#include "eval/requests/prompt.h"

namespace stoa::eval {

struct Request {
  enum class Kind { kLoglikelihood, kRolling, kGenerate };
  Kind kind = Kind::kLoglikelihood;
  std::size_t document = 0;           // index in the task's documents
  std::size_t index = 0;              // among the document's requests
  std::string context, continuation;  // of a rolling one: the text is the continuation
  std::size_t number = 0;             // among all that are asked: answers are drawn by it
};

struct Answer {
  double log_likelihood = 0;
  bool greedy = false;  // every token of the continuation is the most likely one
  std::string text;
};

// The requests of the first `limit` documents, in the harness's order (construct_requests). DataError names
// the document that has no gold answer, or whose template fails.
std::vector<Request> make_requests(const Task& task, const PromptOptions& options, std::size_t limit);

}  // namespace stoa::eval
