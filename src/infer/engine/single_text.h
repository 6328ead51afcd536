// One text whose tokens the caller chooses: logits without an engine, for measurements and tests.
#pragma once

#include <span>
#include <vector>

#include "infer/engine/pass_plan.h"

namespace stoa::infer {

class SingleText {
 public:
  // All blocks of the model are this text's.
  explicit SingleText(PassModel& model);

  // Appends tokens, one at least; returns the logits after the last one, until the next pass. DataError:
  // they exceed the context.
  std::span<const float> feed(std::span<const std::int32_t> tokens);
  // The same for a greedy answer: the most likely token.
  std::int32_t next(std::span<const std::int32_t> tokens);
  // Drops all but the first `keep` tokens; returns how many remain: none where a state cannot be shortened.
  std::int64_t rewind(std::int64_t keep = 0);
  std::int64_t fed() const;

 private:
  std::span<const float> feed(std::span<const std::int32_t> tokens, FoundToken* found);

  PassModel& model_;
  std::vector<BlockId> blocks_;
  std::vector<std::int32_t> tokens_;  // virtual ones among them
};

}  // namespace stoa::infer
