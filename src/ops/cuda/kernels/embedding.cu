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

// A block has neighbouring tokens, a thread a run of them, so that counts by (digit, block, thread) give
// stable places.
struct SortStep {
  std::int64_t count, blocks;
  int shift;                         // of the digit
  const std::int32_t *keys, *order;  // order: none for the first digit
  std::int32_t *to_keys, *to_order;
  std::int32_t* counts;  // [digit][block]
};
constexpr int kDigits = 16, kSortThreads = 256, kSortRun = 8, kSortTokens = kSortThreads * kSortRun;

STOA_DEVICE int digit_of(std::int32_t key, int shift) {
  return static_cast<int>(static_cast<unsigned>(key) >> static_cast<unsigned>(shift) & 15u);
}
// Calls body(i) for the tokens of a thread.
template <class Body>
STOA_DEVICE void for_each_of_run(const Thread& t, std::int64_t count, Body&& body) {
  const std::int64_t begin = t.block_x() * kSortTokens + t.index() * kSortRun;
  STOA_UNROLL
  for (int k = 0; k < kSortRun; ++k)
    if (begin + k < count) body(begin + k);
}

struct CountDigitsKernel {
  using Args = SortStep;
  static constexpr const char* kName = "count digits of tokens";
  static constexpr int kThreads = kSortThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* counts = t.shared<std::int32_t>();
    count_in_block(t, counts, kDigits, [&](const auto& count) {
      for_each_of_run(t, a.count, [&](std::int64_t i) { count(digit_of(a.keys[i], a.shift)); });
    });
    if (t.index() < kDigits) a.counts[t.index() * a.blocks + t.block_x()] = counts[t.index()];
  }
};

struct PlaceTokensKernel {
  using Args = SortStep;
  static constexpr const char* kName = "place tokens";
  static constexpr int kThreads = kSortThreads;

  // begins[d]: how many tokens have a lower digit, or digit d in a block before this one.
  STOA_DEVICE static void find_begins(const Thread& t, const Args& a, std::int32_t* begins,
                                      std::int32_t* slots) {
    const std::int64_t all = kDigits * a.blocks, run = (all + kSortThreads - 1) / kSortThreads;
    const std::int64_t first = t.index() * run, last = first + run < all ? first + run : all;
    std::int32_t sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += a.counts[i];
    std::int32_t before = block_prefix(t, sum, slots).before;
    for (std::int64_t i = first; i < last; ++i) {
      if (i % a.blocks == t.block_x()) begins[i / a.blocks] = before;
      before += a.counts[i];
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* places = t.shared<std::int32_t>();  // [digit][thread]
    auto *begins = places + kDigits * kSortThreads, *slots = begins + kDigits;
    find_begins(t, a, begins, slots);
    for (int d = 0; d < kDigits; ++d) places[d * kSortThreads + t.index()] = 0;
    for_each_of_run(t, a.count, [&](std::int64_t i) {
      ++places[digit_of(a.keys[i], a.shift) * kSortThreads + t.index()];
    });
    t.sync();
    // How many of a block's tokens come before: digit first, then thread. Each thread has kDigits neighbours,
    // of one digit.
    static_assert(kSortThreads % kDigits == 0);
    std::int32_t sum = 0;
    for (int i = 0; i < kDigits; ++i) sum += places[t.index() * kDigits + i];
    std::int32_t at = block_prefix(t, sum, slots).before;
    for (int i = 0; i < kDigits; ++i) {
      const std::int32_t here = places[t.index() * kDigits + i];
      places[t.index() * kDigits + i] = at;
      at += here;
    }
    t.sync();
    // The first thread's places are the tokens of the block with lower digits.
    if (t.index() < kDigits) begins[t.index()] -= places[t.index() * kSortThreads];
    t.sync();
    for_each_of_run(t, a.count, [&](std::int64_t i) {
      const std::int32_t key = a.keys[i];
      const int digit = digit_of(key, a.shift);
      const std::int32_t place = begins[digit] + places[digit * kSortThreads + t.index()]++;
      a.to_keys[place] = key;
      a.to_order[place] = a.order ? a.order[i] : static_cast<std::int32_t>(i);
    });
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

std::int64_t sort_counts(std::int64_t count) { return kDigits * ceil_div(count, kSortTokens); }

void launch_sort_tokens(const SortArgs& a, void* stream) {
  int passes = 1;
  while (passes < 8 && (a.limit - 1) >> (4 * passes) > 0) ++passes;
  SortStep step{.count = a.count,
                .blocks = ceil_div(a.count, kSortTokens),
                .shift = 0,
                .keys = a.ids,
                .order = nullptr,
                .to_keys = nullptr,
                .to_order = nullptr,
                .counts = a.counts};
  for (int pass = 0; pass < passes; ++pass, step.shift += 4) {
    // The last pass writes to the outputs; before, the two places take turns.
    const bool last = (passes - pass) % 2 == 1;
    step.to_keys = last ? a.keys : a.scratch;
    step.to_order = last ? a.order : a.scratch + a.count;
    const Grid grid{.x = step.blocks, .threads = kSortThreads, .shared = kDigits * sizeof(std::int32_t)};
    launch<CountDigitsKernel>(grid, stream, step);
    Grid place = grid;
    place.shared =
        static_cast<std::size_t>(kDigits * (kSortThreads + 1) + kSortThreads / 32) * sizeof(std::int32_t);
    launch<PlaceTokensKernel>(place, stream, step);
    step.keys = step.to_keys, step.order = step.to_order;
  }
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
