#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/lse.h"

namespace stoa::ops::cuda {
namespace {

template <bool kToRows>
struct LseKernel {
  using Args = LseArgs;
  static constexpr const char* kName = "log-sums of attention";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * t.count() + t.index();  // of by_row
    if (i >= a.batch * a.length * a.heads) return;
    const std::int64_t row = i / a.heads, head = i - row * a.heads, b = row / a.length,
                       at = row - b * a.length;
    float& other = a.by_head[(b * a.heads + head) * a.length + at];
    if (kToRows)
      a.by_row[i] = other;
    else
      other = a.by_row[i];
  }
};

Grid grid_of(const LseArgs& a) { return {.x = ceil_div(a.batch * a.length * a.heads, 256), .threads = 256}; }

}  // namespace

void launch_lse_to_rows(const LseArgs& a, void* stream) { launch<LseKernel<true>>(grid_of(a), stream, a); }
void launch_lse_from_rows(const LseArgs& a, void* stream) { launch<LseKernel<false>>(grid_of(a), stream, a); }

}  // namespace stoa::ops::cuda
