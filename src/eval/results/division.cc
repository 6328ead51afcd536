#include "eval/results/division.h"

#include "eval/python/text.h"

namespace stoa::eval {

std::vector<std::size_t> requests_of_rank(std::span<const Request> requests, const Division& division) {
  std::vector<std::size_t> out;
  int turn = -1;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i == 0 || requests[i].document != requests[i - 1].document) turn = (turn + 1) % division.ranks;
    if (turn == division.rank) out.push_back(i);
  }
  return out;
}

AnsweredPart gather_parts(AnsweredPart own, const Division& division) {
  if (division.ranks == 1) return own;
  Json text{{"resumed", own.resumed}, {"truncated", own.truncated}, {"answers", Json::array()}};
  for (std::size_t i = 0; i < own.requests.size(); ++i) {
    const Answer& a = own.answers[i];
    text["answers"].push_back(Json::array({own.requests[i], a.log_likelihood, a.greedy, a.text}));
  }
  const std::vector<std::string> all = division.gather(text.dump());
  if (!division.first()) return own;
  AnsweredPart out;
  for (const std::string& part : all) {
    const Json read = Json::parse(part);
    out.resumed += read["resumed"].get<std::size_t>();
    out.truncated += read["truncated"].get<std::size_t>();
    for (const Json& a : read["answers"]) {
      out.requests.push_back(a[0]);
      out.answers.push_back({a[1], a[2], a[3]});
    }
  }
  return out;
}

}  // namespace stoa::eval
