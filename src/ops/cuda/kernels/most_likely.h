// The largest logit of each row (ops/most_likely.h).
#pragma once

#include <cstdint>

namespace stoa::ops::cuda {

inline constexpr int kBlockOfLogits = 512;  // ops::kMostLikelyBlock

struct MostLikelyArgs {
  const float* logits = nullptr;  // rows `stride` apart
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int32_t* found = nullptr;  // [rows, 2]
};
void launch_most_likely(const MostLikelyArgs& args, void* stream);

}  // namespace stoa::ops::cuda
