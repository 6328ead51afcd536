// Finds the rank that holds up a waiting rank. The ranks that it waits for may be waiting themselves, so they
// are asked, then those that they name: one that does not answer never arrived.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stoa::comm {

// What a rank answers. One that computes, is stopped or gone answers nothing.
struct WaitState {
  bool working = false;           // at something that takes its time, and will come
  std::string text = {};          // what it waits for, or works at
  std::vector<int> awaited = {};  // ranks
};

class WaitChain {
 public:
  // A chain that starts at rank `own`, which waits for `awaited`.
  WaitChain(int own, std::span<const int> awaited);

  void answer(int rank, WaitState state);
  // Ranks of the chain that are still to answer, ascending.
  std::vector<int> unanswered() const;
  // True if some rank of the chain is working and all answer: the wait is worth continuing.
  bool excused() const;
  // "rank 4@n02 never arrived (rank 3@n02, which waits for it: pp receive …)". `name`: of a rank.
  std::string verdict(const std::function<std::string(int)>& name) const;

 private:
  const int own_;
  std::map<int, std::optional<WaitState>> states_;  // of the ranks of the chain
};

// How long ranks have to answer after a wait of `timeout`: 5 to 10 seconds. A waiting rank answers within
// milliseconds on an idle machine.
std::chrono::milliseconds answer_time(std::chrono::milliseconds timeout);

// "0-3, 8, 9"
std::string rank_list(std::span<const int> ranks);

}  // namespace stoa::comm
