#include "comm/wait_chain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stoa::comm {
namespace {

constexpr std::size_t kMostNames = 8;  // in a message

}  // namespace

WaitChain::WaitChain(int own, std::span<const int> awaited) : own_(own) {
  for (const int rank : awaited) states_.try_emplace(rank);
}

void WaitChain::answer(int rank, WaitState state) {
  const auto found = states_.find(rank);
  if (found == states_.end() || found->second) return;
  for (const int next : state.awaited)
    if (next != own_) states_.try_emplace(next);
  found->second = std::move(state);
}

std::vector<int> WaitChain::unanswered() const {
  std::vector<int> ranks;
  for (const auto& [rank, state] : states_)
    if (!state) ranks.push_back(rank);
  return ranks;
}

bool WaitChain::excused() const {
  return unanswered().empty() &&
         std::any_of(states_.begin(), states_.end(), [](const auto& entry) { return entry.second->working; });
}

std::string WaitChain::verdict(const std::function<std::string(int)>& name) const {
  const std::vector<int> silent = unanswered();
  std::vector<std::string> names, between;
  const std::vector<int> first(
      silent.begin(), silent.begin() + static_cast<std::ptrdiff_t>(std::min(silent.size(), kMostNames)));
  for (const int rank : first) names.push_back(name(rank));
  if (silent.size() > first.size()) names.push_back(fmt::format("{} more", silent.size() - first.size()));
  for (const auto& [rank, state] : states_) {
    const bool leads =
        state && std::any_of(state->awaited.begin(), state->awaited.end(), [&](int next) {
          return silent.empty() || std::find(silent.begin(), silent.end(), next) != silent.end();
        });
    if (leads && between.size() < kMostNames)
      between.push_back(fmt::format("{}: {}", name(rank), state->text));
  }
  if (silent.empty())
    return between.empty() ? "all ranks have arrived, but it does not end"
                           : fmt::format("the ranks wait for each other ({})", fmt::join(between, "; "));
  std::string text = fmt::format("{} never arrived", fmt::join(names, ", "));
  if (!between.empty()) text += fmt::format(" (others wait too: {})", fmt::join(between, "; "));
  return text;
}

std::chrono::milliseconds answer_time(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / 4, std::chrono::seconds(5),
                                               std::chrono::seconds(10));
}

std::string rank_list(std::span<const int> ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (end > i + 1) out += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace stoa::comm
