#include "infer/engine/prompt_lookup.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kLongestEnding = 8, kShortestEnding = 2, kFarthest = 1 << 16;

}  // namespace

std::vector<std::int32_t> look_up(std::span<const std::int32_t> text, std::int64_t most) {
  const std::int64_t size = std::ssize(text);
  const auto at = [&](std::int64_t i) { return text[static_cast<std::size_t>(i)]; };
  std::int64_t best = kShortestEnding - 1, from = -1;
  // `end`: behind an earlier occurrence.
  for (std::int64_t end = size - 1; end >= kShortestEnding && end > size - kFarthest; --end) {
    std::int64_t same = 0;
    while (same < kLongestEnding && same < end && at(end - 1 - same) == at(size - 1 - same)) ++same;
    if (same <= best) continue;
    best = same;
    from = end;
    if (best == kLongestEnding) break;
  }
  if (from < 0) return {};
  const auto followers = text.subspan(static_cast<std::size_t>(from));
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(most, 0, std::ssize(followers)));
  return {followers.begin(), followers.begin() + static_cast<std::ptrdiff_t>(count)};
}

void PromptLookup::propose(std::span<DraftWish> wishes) {
  for (DraftWish& wish : wishes) wish.guesses = look_up(wish.text, wish.most);
}

}  // namespace stoa::infer
