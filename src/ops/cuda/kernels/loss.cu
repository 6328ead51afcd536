#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/loss.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 512;
constexpr float kLowest = -3.402823466e38f;

// A block has a row. The first pass keeps a running maximum and the sum of exponentials below it; the second,
// which finds the row in the L2 cache, writes the gradient.
template <class T, int V>
struct CrossEntropyKernel {
  using Args = CrossEntropyArgs;
  static constexpr const char* kName = "cross entropy";
  static constexpr int kThreads = kBlock;

  template <class Body>
  STOA_DEVICE static void for_each(const Thread& t, std::int64_t columns, Body&& body) {
    for (std::int64_t i = std::int64_t{t.index()} * V; i < columns; i += std::int64_t{t.count()} * V) body(i);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* slots = t.shared<float>();
    T* row = static_cast<T*>(a.logits) + t.block_x() * a.columns;
    const std::int64_t label = a.labels[t.block_x()];
    const bool known = label >= 0 && label < a.vocabulary;
    const float mask = a.mask[t.block_x()];
    const float weight = a.seed ? static_cast<float>(static_cast<double>(mask) * *a.seed) : 0.0f;

    float top = kLowest, sum = 0;
    for_each(t, a.vocabulary, [&](std::int64_t i) {
      float x[V];
      load_pack<V>(row + i, x);
      float high = top;
      STOA_UNROLL
      for (int j = 0; j < V; ++j) {
        if (i + j >= a.vocabulary) x[j] = kLowest;
        high = Max::of(high, x[j]);
      }
      sum *= expf(top - high);
      top = high;
      STOA_UNROLL
      for (int j = 0; j < V; ++j)
        if (i + j < a.vocabulary) sum += expf(x[j] - top);
    });
    const float all_top = block_reduce<Max>(t, top, slots);
    sum = block_reduce<Add>(t, sum * expf(top - all_top), slots);
    const float log_sum = logf(sum), lse = all_top + log_sum;
    const float at_label = known ? static_cast<float>(widen(row[label])) : 0.0f;
    t.sync();  // everybody has read the label's logit
    if (t.index() == 0) {
      // A masked token may have any label; another one without a label must show up.
      a.losses[t.block_x()] = known       ? (all_top - at_label) + log_sum
                              : mask == 0 ? 0.0f
                                          : float_of(0x7fffffffu);
    }
    if (!a.seed) return;
    const bool zero = weight == 0 || !known;
    for_each(t, a.columns, [&](std::int64_t i) {
      float x[V];
      if (!zero) load_pack<V>(row + i, x);
      STOA_UNROLL
      for (int j = 0; j < V; ++j) {
        if (zero || i + j >= a.vocabulary)
          x[j] = 0;
        else
          x[j] = weight * (i + j == label ? expm1f(x[j] - lse) : expf(x[j] - lse));
      }
      store_pack<V>(row + i, x);
    });
  }
};

struct SumLossesKernel {
  using Args = SumLossesArgs;
  static constexpr const char* kName = "sum losses";
  static constexpr int kThreads = 1024;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    double sum = 0;
    for (std::int64_t i = t.index(); i < a.count; i += t.count())
      if (a.mask[i] != 0) sum += static_cast<double>(a.losses[i]) * static_cast<double>(a.mask[i]);
    sum = block_reduce<Add>(t, sum, t.shared<double>());
    if (t.index() == 0) *a.sum += sum;
  }
};

}  // namespace

void launch_cross_entropy(const CrossEntropyArgs& a, void* stream) {
  const Grid grid{.x = a.rows,
                  .threads = round_up_warps(a.wide ? ceil_div(a.columns, 8) : a.columns, kBlock),
                  .shared = kBlock / 32 * sizeof(float)};
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      launch<CrossEntropyKernel<decltype(type), decltype(v)::value>>(grid, stream, a);
    });
  });
}

void launch_sum_losses(const SumLossesArgs& a, void* stream) {
  launch<SumLossesKernel>({.x = 1, .threads = round_up_warps(a.count, 1024), .shared = 32 * sizeof(double)},
                          stream, a);
}

}  // namespace stoa::ops::cuda
