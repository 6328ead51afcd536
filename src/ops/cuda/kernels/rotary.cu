#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/rotary.h"

namespace stoa::ops::cuda {
namespace {

// A block turns all heads of one token.
template <class T, int V>
struct RotaryKernel {
  using Args = RotaryArgs;
  static constexpr const char* kName = "rotary";
  static constexpr int kThreads = 256;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t token = t.block_x(), packs = a.half / V;
    const std::int64_t position = a.positions[token];
    const bool known = position >= 0 && position < a.table_rows;
    const float* table = a.table + (known ? position : 0) * 2 * a.half;
    for (std::int64_t i = t.index(); i < a.heads * packs; i += t.count()) {
      const std::int64_t head = i / packs, at = (i - head * packs) * V;
      T* row = row_of<T>(a.x, token * a.heads + head) + at;
      float x[V], y[V], c[V], s[V];
      load_pack<V>(row, x);
      load_pack<V>(row + a.half, y);
      load_pack<V>(table + at, c);
      load_pack<V>(table + a.half + at, s);
      STOA_UNROLL
      for (int j = 0; j < V; ++j) {
        const float sine = a.inverse ? -s[j] : s[j], u = x[j], v = y[j];
        x[j] = u * c[j] - v * sine;
        y[j] = v * c[j] + u * sine;
        if (!known) x[j] = y[j] = float_of(0x7fffffffu);  // shows up in the loss
      }
      store_pack<V>(row, x);
      store_pack<V>(row + a.half, y);
    }
  }
};

}  // namespace

void launch_rotary(const RotaryArgs& a, void* stream) {
  const std::int64_t packs = a.heads * (a.wide ? a.half / 8 : a.half);
  const Grid grid{.x = a.tokens, .threads = round_up_warps(packs, 256)};
  with_fast_type(a.x.type, [&](auto type) {
    with_width(a.wide,
               [&](auto v) { launch<RotaryKernel<decltype(type), decltype(v)::value>>(grid, stream, a); });
  });
}

}  // namespace stoa::ops::cuda
