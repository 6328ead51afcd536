#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/most_likely.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// The largest logit of blocks of a row, and the first block that has it.
struct Highest {
  float logit;
  std::int32_t block;
  STOA_DEVICE static Highest of(const Highest& a, const Highest& b) {
    return b.logit > a.logit || (b.logit == a.logit && b.block < a.block) ? b : a;
  }
};

// A block of threads has a row, a warp a block of logits at a time.
struct MostLikelyKernel {
  using Args = MostLikelyArgs;
  static constexpr const char* kName = "most likely";
  static constexpr int kThreads = 1024;
  static constexpr int kBlock = kBlockOfLogits, kEach = kBlock / 32;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const float* const row = a.logits + t.block_x() * a.stride;
    Highest best{-INFINITY, 0};
    for (std::int64_t begin = std::int64_t{t.warp()} * kBlock; begin < a.columns;
         begin += std::int64_t{t.warps()} * kBlock) {
      float x[kEach];
      STOA_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const std::int64_t c = begin + t.lane() + 32 * i;
        x[i] = c < a.columns ? row[c] : -INFINITY;
      }
      const float first = t.shuffle(x[0], 0);
      float here = -INFINITY;
      STOA_UNROLL
      for (int i = 0; i < kEach; ++i) here = fmaxf(here, x[i]);  // NaN does not count
      here = warp_reduce<Max>(t, here);
      if (first == first && here > best.logit) best = {here, static_cast<std::int32_t>(begin / kBlock)};
    }
    auto* const all = t.shared<Highest>();
    if (t.lane() == 0) all[t.warp()] = best;
    t.sync();
    if (t.warp() != 0) return;
    for (int w = 0; w < t.warps(); ++w) best = Highest::of(best, all[w]);
    // The first of the block that is not below it.
    const std::int64_t begin = std::int64_t{best.block} * kBlock;
    for (std::int64_t at = begin; at < a.columns; at += 32) {
      const std::int64_t c = at + t.lane();
      const float x = c < a.columns ? row[c] : -INFINITY;
      const unsigned found = t.ballot(c < a.columns && !(x < best.logit));
      if (found == 0) continue;
      int lane = 0;
      while ((found >> lane & 1u) == 0) ++lane;
      const float logit = t.shuffle(x, lane);
      if (t.lane() == 0) {
        a.found[2 * t.block_x()] = static_cast<std::int32_t>(at + lane);
        a.found[2 * t.block_x() + 1] = static_cast<std::int32_t>(bits_of(logit));
      }
      return;
    }
  }
};

}  // namespace

void launch_most_likely(const MostLikelyArgs& a, void* stream) {
  launch<MostLikelyKernel>({.x = a.rows,
                            .threads = MostLikelyKernel::kThreads,
                            .shared = sizeof(Highest) * MostLikelyKernel::kThreads / 32},
                           stream, a);
}

}  // namespace stoa::ops::cuda
