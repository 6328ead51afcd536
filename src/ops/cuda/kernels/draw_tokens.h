// Tokens drawn from rows of logits (ops/token_draw.h).
#pragma once

#include <cstdint>

#include "ops/token_draw.h"

namespace stoa::ops::cuda {

struct DrawTokensArgs {
  const float* logits = nullptr;  // rows `stride` apart
  std::int64_t columns = 0, stride = 0;
  const TokenDraw* draws = nullptr;
  std::int64_t count = 0;         // of the draws
  std::int32_t* found = nullptr;  // [count, 2]
};
void launch_draw_tokens(const DrawTokensArgs& args, void* stream);

}  // namespace stoa::ops::cuda
