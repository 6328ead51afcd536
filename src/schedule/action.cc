#include "schedule/action.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <sstream>

#include "base/error.h"

namespace stoa::schedule {
namespace {

constexpr std::array<std::string_view, 12> kNames{"F",  "B",  "I",  "W",  "SA", "RA",
                                                  "SG", "RG", "GW", "RW", "RD", "STEP"};

Action parse_action(std::string_view text) {
  std::size_t letters = 0;
  while (letters < text.size() && text[letters] >= 'A' && text[letters] <= 'Z') ++letters;
  const auto name = std::find(kNames.begin(), kNames.end(), text.substr(0, letters));
  require<ConfigError>(name != kNames.end(), "'{}' is not an action: expected one of {}", text,
                       fmt::join(kNames, ", "));
  Action action{static_cast<ActionKind>(name - kNames.begin()), -1, -1};
  const char* p = text.data() + letters;
  const char* end = text.data() + text.size();
  if (p != end) p = std::from_chars(p, end, action.chunk).ptr;
  if (p != end && *p == '.') p = std::from_chars(p + 1, end, action.microbatch).ptr;
  require<ConfigError>(p == end, "'{}' is not an action: expected a form like F0.3 (chunk 0, microbatch 3)",
                       text);
  return action;
}

}  // namespace

std::string_view name_of(ActionKind kind) { return kNames[static_cast<int>(kind)]; }

std::string to_text(const Action& action) {
  std::string out(name_of(action.kind));
  if (action.chunk >= 0) out += std::to_string(action.chunk);
  if (action.microbatch >= 0) out += "." + std::to_string(action.microbatch);
  return out;
}

bool is_compute(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }

bool is_backward(ActionKind kind) { return is_compute(kind) && kind != ActionKind::kForward; }

bool is_transfer(ActionKind kind) {
  return kind >= ActionKind::kSendActivation && kind <= ActionKind::kReceiveGradient;
}

int peer_of(const Action& transfer, const ChunkPlacement& placement) {
  if (!is_transfer(transfer.kind)) fail<InternalError>("{} has no peer", to_text(transfer));
  const bool up =
      transfer.kind == ActionKind::kSendActivation || transfer.kind == ActionKind::kReceiveGradient;
  const int other = transfer.chunk + (up ? 1 : -1);
  if (other < 0 || other >= placement.chunks())
    fail<ConfigError>("{} has no peer: chunk {} does not exist", to_text(transfer), other);
  return placement.rank_of_chunk[other];
}

Action matching_receive(const Action& send) {
  if (send.kind == ActionKind::kSendActivation)
    return {ActionKind::kReceiveActivation, send.chunk + 1, send.microbatch};
  if (send.kind != ActionKind::kSendGradient) fail<InternalError>("{} is not a send", to_text(send));
  return {ActionKind::kReceiveGradient, send.chunk - 1, send.microbatch};
}

int ChunkPlacement::ranks() const {
  return rank_of_chunk.empty() ? 0 : 1 + *std::max_element(rank_of_chunk.begin(), rank_of_chunk.end());
}

ChunkPlacement ChunkPlacement::one_chunk_per_rank(int stages) {
  ChunkPlacement placement;
  placement.rank_of_chunk.resize(stages);
  std::iota(placement.rank_of_chunk.begin(), placement.rank_of_chunk.end(), 0);
  return placement;
}

int ChunkPlacement::chunks_on(int rank) const {
  return static_cast<int>(std::count(rank_of_chunk.begin(), rank_of_chunk.end(), rank));
}

int ChunkPlacement::local_index(int chunk) const {
  return static_cast<int>(
      std::count(rank_of_chunk.begin(), rank_of_chunk.begin() + chunk, rank_of_chunk[chunk]));
}

ChunkPlacement ChunkPlacement::interleaved(int ranks, int chunks_per_rank) {
  ChunkPlacement placement;
  for (int c = 0; c < ranks * chunks_per_rank; ++c) placement.rank_of_chunk.push_back(c % ranks);
  return placement;
}

ChunkPlacement ChunkPlacement::v_shaped(int ranks) {
  ChunkPlacement placement = one_chunk_per_rank(ranks);
  for (int r = ranks - 1; r >= 0; --r) placement.rank_of_chunk.push_back(r);
  return placement;
}

ChunkPlacement ChunkPlacement::two_ways(int ranks) {
  ChunkPlacement placement = v_shaped(ranks);
  placement.copies = 2;
  return placement;
}

std::string to_text(const Schedule& schedule) {
  std::string out;
  for (const auto& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i) out += actions[i - 1].overlaps_next ? "|" : " ";
      out += to_text(actions[i]);
    }
    out += "\n";
  }
  return out;
}

std::vector<Action> parse_actions(std::string_view line) {
  std::vector<Action> actions;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;)
    for (std::size_t begin = 0; begin <= word.size();) {
      const std::size_t bar = std::min(word.find('|', begin), word.size());
      actions.push_back(parse_action(std::string_view(word).substr(begin, bar - begin)));
      actions.back().overlaps_next = bar < word.size();
      begin = bar + 1;
    }
  return actions;
}

}  // namespace stoa::schedule
