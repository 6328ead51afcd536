#include "infer/answer_pairs.h"

namespace stoa::infer {

std::vector<FoundTarget> answer_pairs(EncoderDecoderRank& rank,
                                      const std::vector<std::vector<std::int32_t>>& sources,
                                      std::int32_t start,
                                      const std::vector<std::unique_ptr<TargetSearch>>& searches) {
  const auto vocabulary = static_cast<std::size_t>(rank.options().model.vocabulary);
  struct Walk {
    TargetSearch* search;
    std::size_t targets;
  };
  std::vector<Walk> walks;
  for (const auto& search : searches) walks.push_back({search.get(), 1});
  std::span<const float> logits = rank.read(sources, start);
  while (true) {
    std::vector<Walk> going;
    std::vector<std::int32_t> tokens, parents;
    std::size_t first = 0;  // target of the walk
    for (Walk& walk : walks) {
      if (walk.search->advance(logits.subspan(first * vocabulary, walk.targets * vocabulary))) {
        const auto own = walk.search->tokens();
        tokens.insert(tokens.end(), own.begin(), own.end());
        for (const std::int32_t parent : walk.search->parents())
          parents.push_back(static_cast<std::int32_t>(first) + parent);
        going.push_back({walk.search, own.size()});
      }
      first += walk.targets;
    }
    if (going.empty()) break;
    walks = std::move(going);
    rank.select(parents);
    logits = rank.feed(tokens);
  }
  std::vector<FoundTarget> out;
  for (const auto& search : searches) out.push_back(search->best());
  return out;
}

}  // namespace stoa::infer
