#include "ops/cuda/kernels/embedding.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/random.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// A block has one token.
template <class T, class Y, int V>
struct ForwardKernel {
  using Args = EmbeddingArgs;
  static constexpr const char* kName = "embedding forward";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t token = t.block_x();
    const std::int64_t id = a.ids[token] - a.first_id, position = a.position_table ? a.positions[token] : 0;
    const bool here = id >= 0 && id < a.table_rows;
    const bool known = a.ids[token] >= 0 && a.ids[token] < a.vocabulary &&
                       (!a.position_table || (position >= 0 && position < a.position_rows));
    for (std::int64_t i = std::int64_t{t.index()} * V; i < a.columns; i += std::int64_t{t.count()} * V) {
      float x[V];
      if (known && here) {
        load_pack<V>(static_cast<const T*>(a.table) + id * a.columns + i, x);
        if (a.position_table) {
          float p[V];
          load_pack<V>(static_cast<const T*>(a.position_table) + position * a.columns + i, p);
          STOA_UNROLL
          for (int j = 0; j < V; ++j) x[j] += p[j];
        }
        apply_dropout<V>(a.dropout, token * a.columns + i, x);
      } else {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) x[j] = known ? 0.0f : float_of(0x7fffffffu);  // NaN shows up in the loss
      }
      store_pack<V>(static_cast<Y*>(a.y) + token * a.columns + i, x);
    }
  }
};

// Each thread owns a run of neighbouring tokens, so that counts by (digit, thread) give stable places.
struct SortKernel {
  struct Args {
    SortArgs sort;
    int passes;
  };
  static constexpr const char* kName = "sort tokens";
  static constexpr int kThreads = 512;
  static constexpr int kDigits = 16;

  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const SortArgs& a = args.sort;
    auto* counts = t.shared<std::int32_t>();     // [digit][thread]
    auto* slots = counts + kDigits * t.count();  // one per warp
    const std::int64_t run = (a.count + t.count() - 1) / t.count();
    const std::int64_t begin = run * t.index() < a.count ? run * t.index() : a.count;
    const std::int64_t end = begin + run < a.count ? begin + run : a.count;
    for (int pass = 0; pass < args.passes; ++pass) {
      // The last pass writes to the outputs; before, the two places take turns.
      const bool even = (args.passes - pass) % 2 == 0;
      const std::int32_t* from_keys = pass == 0 ? a.ids : even ? a.keys : a.scratch;
      const std::int32_t* from_order = even ? a.order : a.scratch + a.count;
      std::int32_t* to_keys = even ? a.scratch : a.keys;
      std::int32_t* to_order = even ? a.scratch + a.count : a.order;
      for (int d = 0; d < kDigits; ++d) counts[d * t.count() + t.index()] = 0;
      for (std::int64_t i = begin; i < end; ++i)
        ++counts[((static_cast<unsigned>(from_keys[i]) >> (4 * pass)) & 15u) *
                     static_cast<unsigned>(t.count()) +
                 static_cast<unsigned>(t.index())];
      t.sync();
      // Exclusive sums over counts in memory order: digit first, then thread. Each thread does kDigits
      // neighbours.
      std::int32_t sum = 0;
      for (int i = 0; i < kDigits; ++i) sum += counts[t.index() * kDigits + i];
      std::int32_t at = block_prefix(t, sum, slots).before;
      for (int i = 0; i < kDigits; ++i) {
        const std::int32_t here = counts[t.index() * kDigits + i];
        counts[t.index() * kDigits + i] = at;
        at += here;
      }
      t.sync();
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t key = from_keys[i];
        std::int32_t& place =
            counts[((static_cast<unsigned>(key) >> (4 * pass)) & 15u) * static_cast<unsigned>(t.count()) +
                   static_cast<unsigned>(t.index())];
        to_keys[place] = key;
        to_order[place] = pass == 0 ? static_cast<std::int32_t>(i) : from_order[i];
        ++place;
      }
      t.sync();
    }
  }
};

// A block has a place in the sorted tokens and a group of columns; it works where an id begins.
template <class T, int V>
struct BackwardKernel {
  using Args = EmbeddingGradientArgs;
  static constexpr const char* kName = "embedding backward";
  static constexpr int kThreads = 128;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t begin = t.block_x();
    const std::int32_t id = a.keys[begin];
    if (begin > 0 && a.keys[begin - 1] == id) return;
    if (id < a.first_id || id >= a.first_id + a.table_rows) return;
    const std::int64_t i = (t.block_y() * t.count() + t.index()) * V;
    if (i >= a.columns) return;
    float sum[V];
    float* out = a.table + (id - a.first_id) * a.columns + i;
    load_pack<V>(out, sum);
    // Rows are read several at a time and added one after the other.
    constexpr int kAhead = 4;
    for (std::int64_t at = begin;; at += kAhead) {
      float dy[kAhead][V];
      bool has[kAhead];
      STOA_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        has[k] = at + k < a.count && a.keys[at + k] == id;
        if (!has[k]) continue;
        const std::int64_t token = a.order[at + k];
        load_pack<V>(static_cast<const T*>(a.dy) + token * a.columns + i, dy[k]);
        apply_dropout<V>(a.dropout, token * a.columns + i, dy[k]);
      }
      STOA_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        if (!has[k]) continue;
        STOA_UNROLL
        for (int j = 0; j < V; ++j) sum[j] += dy[k][j];
      }
      if (!has[kAhead - 1]) break;
    }
    store_pack<V>(out, sum);
  }
};

}  // namespace

void launch_embedding_forward(const EmbeddingArgs& a, void* stream) {
  const Grid grid{.x = a.tokens, .threads = round_up_warps(a.wide ? a.columns / 8 : a.columns, 256)};
  with_fast_type(a.table_type, [&](auto table) {
    using T = decltype(table);
    with_width(a.wide, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      if (a.y_type == a.table_type)
        launch<ForwardKernel<T, T, kV>>(grid, stream, a);
      else
        launch<ForwardKernel<T, float, kV>>(grid, stream, a);
    });
  });
}

void launch_sort_tokens(const SortArgs& a, void* stream) {
  int passes = 1;
  while (passes < 8 && (a.limit - 1) >> (4 * passes) > 0) ++passes;
  const int threads = round_up_warps(a.count, SortKernel::kThreads);
  launch<SortKernel>({.x = 1,
                      .threads = threads,
                      .shared = static_cast<std::size_t>(threads * SortKernel::kDigits + threads / 32) *
                                sizeof(std::int32_t)},
                     stream, {a, passes});
}

void launch_embedding_backward(const EmbeddingGradientArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    with_width(a.wide, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      launch<BackwardKernel<decltype(type), kV>>(
          {.x = a.count, .y = ceil_div(a.columns, 128 * kV), .threads = 128}, stream, a);
    });
  });
}

}  // namespace stoa::ops::cuda
