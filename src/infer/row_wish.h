// What is asked for in a row of logits: the logits, or the token that a sampler takes from them, found where
// they are.
#pragma once

#include <cstdint>

#include "ops/token_draw.h"

namespace stoa::infer {

struct RowWish {
  enum class Kind : std::uint8_t { kLogits, kMostLikely, kDrawn };
  Kind kind = Kind::kLogits;
  ops::TokenDraw draw = {};  // kDrawn; its row does not count
};

// A token that was found in place of logits, and its logit.
struct FoundToken {
  std::int32_t id = 0;
  float logit = 0;
};

}  // namespace stoa::infer
