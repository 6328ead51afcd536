// The largest logit of each row (ops/likeliest.h).
#pragma once

#include <cstdint>

namespace stoa::ops::cuda {

struct LikeliestArgs {
  const float* logits = nullptr;  // rows `stride` apart
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int32_t* found = nullptr;  // [rows, 2]
};
void launch_likeliest(const LikeliestArgs& args, void* stream);

}  // namespace stoa::ops::cuda
