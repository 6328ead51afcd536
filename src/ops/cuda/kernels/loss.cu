#include <cmath>

#include "ops/cuda/kernels/approximations.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/loss.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 512;
constexpr float kLowest = -3.402823466e38f;

// What all columns of a row say together: lse = top + log_sum.
struct Totals {
  float top = kLowest, sum = 0, at_label = 0, total = 0;
  STOA_DEVICE float log_sum() const { return logf(sum); }
};

enum class Work { kAll, kPart, kMerge };

struct Counted {
  int value;
};

// A block has a row. The first pass keeps a running maximum and the sum of exponentials below it; the second,
// which finds the row in the L2 cache, writes the gradient.
template <class T, int V, Work kWork>
struct CrossEntropyKernel {
  using Args = CrossEntropyArgs;
  static constexpr const char* kName = kWork == Work::kAll    ? "cross entropy"
                                       : kWork == Work::kPart ? "cross entropy of a part"
                                                              : "cross entropy of parts";
  static constexpr int kThreads = kBlock;

  // Calls body(i, count) for the packs of this thread that begin at column i and have `count` columns:
  // Width<V> where all are there, so that nothing is compared.
  template <class Body>
  STOA_DEVICE static void for_each(const Thread& t, std::int64_t columns, Body&& body) {
    std::int64_t i = std::int64_t{t.index()} * V;
    for (; i + V <= columns; i += std::int64_t{t.count()} * V) body(i, Width<V>{});
    if (i < columns) body(i, Counted{static_cast<int>(columns - i)});
  }

  STOA_DEVICE static Totals totals_of(const Thread& t, const Args& a, const T* row, std::int64_t label) {
    auto* slots = t.shared<float>();
    const bool all_columns = kWork == Work::kPart || a.smoothing != 0;
    Totals own;
    for_each(t, a.columns, [&](std::int64_t i, auto count) {
      float x[V];
      load_pack<V>(row + i, x);
      float high = own.top;
      STOA_UNROLL
      for (int j = 0; j < V; ++j)
        if (j < count.value) high = Max::of(high, x[j]);
      if (all_columns) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j)
          if (j < count.value) own.total += x[j];
      }
      own.sum *= exp_for<T>(own.top - high);
      own.top = high;
      STOA_UNROLL
      for (int j = 0; j < V; ++j)
        if (j < count.value) own.sum += exp_for<T>(x[j] - high);
    });
    Totals all;
    all.top = block_reduce<Max>(t, own.top, slots);
    all.sum = block_reduce<Add>(t, own.sum * expf(own.top - all.top), slots);
    if (all_columns) all.total = block_reduce<Add>(t, own.total, slots);
    if (label >= 0 && label < a.columns) all.at_label = static_cast<float>(widen(row[label]));
    t.sync();  // everybody has read the label's logit before it is overwritten
    return all;
  }

  STOA_DEVICE static Totals merged(const Args& a, std::int64_t r) {
    Totals all;
    const auto part = [&](std::int64_t rank) { return a.parts + (rank * a.rows + r) * 4; };
    for (std::int64_t rank = 0; rank < a.ranks; ++rank) all.top = Max::of(all.top, part(rank)[0]);
    for (std::int64_t rank = 0; rank < a.ranks; ++rank) {
      const float* p = part(rank);
      all.sum += p[1] * expf(p[0] - all.top);
      all.at_label += p[2];
      all.total += p[3];
    }
    return all;
  }

  STOA_DEVICE static float loss_of(const Args& a, const Totals& x) {
    if (a.smoothing == 0 && a.z_weight == 0) return (x.top - x.at_label) + x.log_sum();
    const double lse = static_cast<double>(x.top) + static_cast<double>(x.log_sum());
    const double smoothing = static_cast<double>(a.smoothing);
    return static_cast<float>(lse - (1 - smoothing) * static_cast<double>(x.at_label) -
                              smoothing / static_cast<double>(a.vocabulary) * static_cast<double>(x.total) +
                              static_cast<double>(a.z_weight) * lse * lse);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t r = t.block_x();
    T* row = a.logits ? static_cast<T*>(a.logits) + r * a.width : nullptr;
    const std::int64_t label = a.labels[r] - a.first_column;
    const Totals x = kWork == Work::kMerge ? merged(a, r) : totals_of(t, a, row, label);
    if constexpr (kWork == Work::kPart) {
      if (t.index() != 0) return;
      float* part = a.part + 4 * r;
      part[0] = x.top, part[1] = x.sum, part[2] = x.at_label, part[3] = x.total;
      return;
    }
    const bool known = a.labels[r] >= 0 && a.labels[r] < a.vocabulary;
    const float mask = a.mask[r];
    if (t.index() == 0)  // a masked token may have any label; another one without a label must show up
      a.losses[r] = known ? loss_of(a, x) : mask == 0 ? 0.0f : float_of(0x7fffffffu);
    if (!a.seed || !row) return;
    const auto weight = static_cast<float>(static_cast<double>(mask) * *a.seed);
    const bool plain = a.smoothing == 0 && a.z_weight == 0;
    const float lse = x.top + x.log_sum(), slope = 1 + 2 * a.z_weight * lse;
    const float share = a.smoothing / static_cast<float>(a.vocabulary);
    if (weight == 0 || !known) {
      const float zeros[V] = {};
      for_each(t, a.width, [&](std::int64_t i, auto) { store_pack<V>(row + i, zeros); });
      return;
    }
    const float factor = plain ? weight : weight * slope, less = plain ? 0 : weight * share;
    for_each(t, a.width, [&](std::int64_t i, auto) {
      float y[V];
      load_pack<V>(row + i, y);
      const std::int64_t at_label = label - i, end = a.columns - i;
      // exp(x) - 1 without loss of digits where the label is nearly certain.
      float of_label = 0;
      if (at_label >= 0 && at_label < V) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j)
          if (j == at_label) of_label = expm1f(y[j] - lse);
        of_label = weight * (plain ? of_label : of_label * slope + (slope - 1) + a.smoothing - share);
      }
      STOA_UNROLL
      for (int j = 0; j < V; ++j) y[j] = factor * exp_for<T>(y[j] - lse) - less;
      if (at_label >= 0 && at_label < V) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j)
          if (j == at_label) y[j] = of_label;
      }
      if (end < V) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j)
          if (j >= end) y[j] = 0;
      }
      store_pack<V>(row + i, y);
    });
  }
};

template <Work kWork>
void launch_loss(const CrossEntropyArgs& a, void* stream) {
  const std::int64_t packs = a.wide ? ceil_div(a.width, 8) : a.width;
  const Grid grid{
      .x = a.rows, .threads = round_up_warps(packs, kBlock), .shared = kBlock / 32 * sizeof(float)};
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      launch<CrossEntropyKernel<decltype(type), decltype(v)::value, kWork>>(grid, stream, a);
    });
  });
}

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

void launch_cross_entropy(const CrossEntropyArgs& a, void* stream) { launch_loss<Work::kAll>(a, stream); }
void launch_cross_entropy_part(const CrossEntropyArgs& a, void* stream) {
  launch_loss<Work::kPart>(a, stream);
}
void launch_cross_entropy_merge(const CrossEntropyArgs& a, void* stream) {
  launch_loss<Work::kMerge>(a, stream);
}

void launch_sum_losses(const SumLossesArgs& a, void* stream) {
  launch<SumLossesKernel>({.x = 1, .threads = round_up_warps(a.count, 1024), .shared = 32 * sizeof(double)},
                          stream, a);
}

}  // namespace stoa::ops::cuda
