#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/most_likely.h"
#include "ops/cuda/kernels/most_likely_row.h"

namespace stoa::ops::cuda {
namespace {

// A block of threads has a row.
struct MostLikelyKernel {
  using Args = MostLikelyArgs;
  static constexpr const char* kName = "most likely";
  static constexpr int kThreads = 1024;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const FoundLogit found =
        most_likely_of_row(t, a.logits + t.block_x() * a.stride, a.columns, t.shared<HighestLogit>());
    if (t.index() != 0) return;
    a.found[2 * t.block_x()] = found.id;
    a.found[2 * t.block_x() + 1] = static_cast<std::int32_t>(bits_of(found.logit));
  }
};

}  // namespace

void launch_most_likely(const MostLikelyArgs& a, void* stream) {
  launch<MostLikelyKernel>({.x = a.rows,
                            .threads = MostLikelyKernel::kThreads,
                            .shared = sizeof(HighestLogit) * MostLikelyKernel::kThreads / 32},
                           stream, a);
}

}  // namespace stoa::ops::cuda
