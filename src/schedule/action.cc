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

constexpr std::array<std::string_view, 12> kNames{"F", "B", "I", "W", "SA", "RA", "SG", "RG", "GW", "RW", "RD", "STEP"};

std::string to_text(const Action& action) {
  std::string out(name_of(action.kind));
  if (action.chunk >= 0) out += std::to_string(action.chunk);
  if (action.microbatch >= 0) out += "." + std::to_string(action.microbatch);
  return out;
}

Action parse_action(std::string_view text) {
  std::size_t letters = 0;
  while (letters < text.size() && text[letters] >= 'A' && text[letters] <= 'Z') ++letters;
  const auto name = std::find(kNames.begin(), kNames.end(), text.substr(0, letters));
  require<ConfigError>(name != kNames.end(), "'{}' is no action: expected one of {}", text, fmt::join(kNames, ", "));
  Action action{static_cast<ActionKind>(name - kNames.begin()), -1, -1};
  const char* p = text.data() + letters;
  const char* end = text.data() + text.size();
  if (p != end) p = std::from_chars(p, end, action.chunk).ptr;
  if (p != end && *p == '.') p = std::from_chars(p + 1, end, action.microbatch).ptr;
  require<ConfigError>(p == end, "'{}' is no action: expected a form like F0.3 (chunk 0, microbatch 3)", text);
  return action;
}

}  // namespace

std::string_view name_of(ActionKind kind) { return kNames[static_cast<int>(kind)]; }

int Placement::ranks() const {
  return rank_of_chunk.empty() ? 0 : 1 + *std::max_element(rank_of_chunk.begin(), rank_of_chunk.end());
}

Placement Placement::one_chunk_per_rank(int stages) {
  Placement placement;
  placement.rank_of_chunk.resize(stages);
  std::iota(placement.rank_of_chunk.begin(), placement.rank_of_chunk.end(), 0);
  return placement;
}

std::string to_text(const Schedule& schedule) {
  std::string out;
  for (const auto& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) out += (i ? " " : "") + to_text(actions[i]);
    out += "\n";
  }
  return out;
}

std::vector<Action> parse_actions(std::string_view line) {
  std::vector<Action> actions;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) actions.push_back(parse_action(word));
  return actions;
}

}  // namespace stoa::schedule
