// How ranks divide an evaluation among them: each answers the requests of some documents, rank 0
// scores.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/requests/request.h"

namespace stoa::eval {

struct Division {
  int rank = 0, ranks = 1;
  // Texts of all ranks by rank, on the first; nothing on the others. Collective.
  std::function<std::vector<std::string>(std::string own)> gather = nullptr;

  bool first() const { return rank == 0; }
};

// Indices of the requests that the rank answers: all those of every `ranks`-th document.
std::vector<std::size_t> requests_of_rank(std::span<const Request> requests, const Division& division);

// What a rank has answered, and counts that are added up.
struct AnsweredPart {
  std::vector<std::size_t> requests;  // indices
  std::vector<Answer> answers;        // of these
  std::size_t resumed = 0, truncated = 0;
};
// On rank 0 the parts of all as one; on the others their own. Collective.
AnsweredPart gather_parts(AnsweredPart own, const Division& division);

}  // namespace stoa::eval
