// Tokens drawn from rows of logits, as ops/token_draw.h says.
#pragma once

#include <cstring>

#include "ops/access.h"
#include "ops/token_draw.h"
#include "tensor/tensor_view.h"

namespace stoa::ops {

// Draw i takes a token from row draws[i].row; it depends on nothing else. A row whose largest logit is not a
// number or infinite gives the token that MostLikely finds.
struct DrawTokens {
  static constexpr const char* kName = "drawn tokens";
  TensorView logits;  // fp32 [T, V]; rows may be strided
  TensorView draws;   // int32 [D, 8]: a TokenDraw in each row
  TensorView found;   // int32 [D, 2]: the id, and the bits of its logit

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("logits", a.logits, Access::kRead);
    f("draws", a.draws, Access::kRead);
    f("found", a.found, Access::kWrite);
  }
};

// Row i of DrawTokens::draws, in memory of the host.
inline TokenDraw draw_of(const TensorView& draws, std::int64_t i) {
  TokenDraw draw;
  std::memcpy(static_cast<void*>(&draw), draws.row<std::int32_t>(i), sizeof(draw));
  return draw;
}

}  // namespace stoa::ops
