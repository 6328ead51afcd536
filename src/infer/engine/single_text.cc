#include "infer/engine/single_text.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "infer/engine/virtual_tokens.h"
#include "infer/token_sampler.h"

namespace stoa::infer {

SingleText::SingleText(PassModel& model)
    : model_(model), blocks_(static_cast<std::size_t>(model.limits().blocks)) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
}

std::int64_t SingleText::fed() const {
  return std::max<std::int64_t>(0, std::ssize(tokens_) - model_.limits().virtual_tokens);
}

std::int64_t SingleText::rewind(std::int64_t keep) {
  if (keep < fed() && (keep == 0 || model_.limits().left_behind == LeftBehind::kWhole))
    tokens_.clear();
  else
    tokens_.resize(static_cast<std::size_t>(std::min(keep, fed()) +
                                            (tokens_.empty() ? 0 : model_.limits().virtual_tokens)));
  return fed();
}

std::span<const float> SingleText::feed(std::span<const std::int32_t> tokens) {
  return feed(tokens, nullptr);
}

std::int32_t SingleText::next(std::span<const std::int32_t> tokens) {
  if (!model_.finds_tokens()) return likeliest(feed(tokens));
  FoundToken found;
  feed(tokens, &found);
  return found.id;
}

// `found`: the most likely token is asked for in place of logits.
std::span<const float> SingleText::feed(std::span<const std::int32_t> tokens, FoundToken* found) {
  const PassLimits& limits = model_.limits();
  require<DataError>(!tokens.empty(), "an empty prompt: give at least one token");
  require<DataError>(fed() + std::ssize(tokens) + limits.virtual_tokens <= limits.longest(),
                     "{} tokens and {} more exceed the context of {}", fed(), tokens.size(),
                     limits.longest() - limits.virtual_tokens);
  std::int64_t begin = std::ssize(tokens_);
  if (begin == 0) tokens_ = with_virtual_tokens(limits, {});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  std::span<const float> logits;
  while (begin < std::ssize(tokens_)) {
    PassSegment segment;
    segment.begin = begin;
    segment.length = std::ssize(tokens_);
    const std::int64_t count = std::min(limits.pass_tokens, segment.length - begin);
    segment.tokens =
        std::span(tokens_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    begin += count;
    segment.blocks = std::span(blocks_).first(static_cast<std::size_t>(limits.blocks_of(begin)));
    segment.last = begin == segment.length;
    segment.scored = segment.last ? 1 : 0;
    PassPlan plan;
    plan.segments = {segment};
    plan.tokens = count;
    plan.scored = segment.scored;
    const RowWish wish{.kind = RowWish::Kind::kMostLikely};
    logits = found && segment.last ? model_.run_wishes(plan, {&wish, 1}, {found, 1}) : model_.run(plan);
  }
  return logits;
}

}  // namespace stoa::infer
