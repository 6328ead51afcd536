#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/random.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256, kWideBlock = 512;
// Packs of a row that a thread keeps in registers; what is beyond is read again.
constexpr int kHold = 2;
constexpr std::int64_t kMostHeld = std::int64_t{kWideBlock} * kHold * 8;  // columns

// A group of `width` threads has a row; a block of 256 threads or more has as many rows as groups.
struct ForwardArgs {
  NormArgs norm;
  int width;
};

template <int V>
STOA_DEVICE void load_gamma(const NormArgs& a, std::int64_t i, float (&gamma)[V]) {
  if (a.gamma) return load_pack<V>(a.gamma + i, gamma);
  STOA_UNROLL
  for (int j = 0; j < V; ++j) gamma[j] = 1;
}

// Where row r begins; with kPlain, rows are not parts of longer ones, which costs a division.
template <class T, bool kPlain>
STOA_DEVICE T* begin_of_row(const Rows& rows, std::int64_t r) {
  if constexpr (kPlain)
    return static_cast<T*>(rows.data) + r * rows.stride;
  else
    return row_of<T>(rows, r);
}

// A row stays in registers as it is in memory, so that many rows are under way on a multiprocessor.
template <class X, class B, class Y, int V, bool kPlain>
struct ForwardKernel {
  using Args = ForwardArgs;
  static constexpr const char* kName = "norm forward";
  static constexpr int kThreads = kWideBlock, kResident = kPlain && sizeof(X) == 2 ? 3 : 2;

  // x + branch as it is stored, which is what is normalised.
  STOA_DEVICE static void add_branch(const NormArgs& a, std::int64_t r, std::int64_t i,
                                     const RawPack<B, V>& branch, RawPack<X, V>& x) {
    float sum[V], other[V];
    x.read(sum);
    branch.read(other);
    if constexpr (!kPlain) apply_dropout<V>(a.dropout, r * a.columns + i, other);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) sum[j] += other[j];
    x.write(sum);
    x.store(begin_of_row<X, kPlain>(a.sum, r) + i);
  }
  // Pack `i` of the row as it is normalised; the sum with the branch is written on the first reading.
  STOA_DEVICE static void load(const NormArgs& a, std::int64_t r, std::int64_t i, bool first,
                               RawPack<X, V>& x) {
    if (!first && a.branch.data) return x.load(begin_of_row<X, kPlain>(a.sum, r) + i);
    x.load(begin_of_row<X, kPlain>(a.x, r) + i);
    if (!a.branch.data) return;
    RawPack<B, V> branch;
    branch.load(begin_of_row<B, kPlain>(a.branch, r) + i);
    add_branch(a, r, i, branch, x);
  }

  // Calls body(pack index, values) for the packs of this thread, the first kHold from `held`.
  template <class Body>
  STOA_DEVICE static void for_each(const NormArgs& a, std::int64_t r, int at, int width,
                                   const RawPack<X, V> (&held)[kHold], Body&& body) {
    const std::int64_t step = std::int64_t{width} * V;
    std::int64_t i = std::int64_t{at} * V;
    float x[V];
    STOA_UNROLL
    for (int k = 0; k < kHold; ++k, i += step) {
      if (i >= a.columns) continue;
      held[k].read(x);
      body(i, x);
    }
    for (; !kPlain && i < a.columns; i += step) {
      RawPack<X, V> pack;
      load(a, r, i, false, pack);
      pack.read(x);
      body(i, x);
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const NormArgs& a = args.norm;
    const int width = args.width, at = t.index() % width;
    const std::int64_t r = t.block_x() * (t.count() / width) + t.index() / width;
    const bool mine = r < a.rows;
    auto* slots = t.shared<float>();
    RawPack<X, V> held[kHold];
    float sum = 0;
    if (mine) {
      const std::int64_t step = std::int64_t{width} * V;
      std::int64_t i = std::int64_t{at} * V;
      const auto add = [&](const RawPack<X, V>& pack) {
        float x[V];
        pack.read(x);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) sum += x[j];
      };
      // All that a thread holds is read before the first sum is stored: sum may be x, so reads would wait for
      // it.
      RawPack<B, V> branch[kHold];
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k) {
        if (i + k * step >= a.columns) continue;
        held[k].load(begin_of_row<X, kPlain>(a.x, r) + i + k * step);
        if (a.branch.data) branch[k].load(begin_of_row<B, kPlain>(a.branch, r) + i + k * step);
      }
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k, i += step) {
        if (i >= a.columns) continue;
        if (a.branch.data) add_branch(a, r, i, branch[k], held[k]);
        add(held[k]);
      }
      for (; !kPlain && i < a.columns; i += step) {
        RawPack<X, V> pack;
        load(a, r, i, true, pack);
        add(pack);
      }
    }
    const auto columns = static_cast<float>(a.columns);
    float mean = 0;
    if (a.centred) mean = group_reduce<Add>(t, sum, width, slots) / columns;
    float square = 0;
    if (mine)
      for_each(a, r, at, width, held, [&](std::int64_t, const float(&x)[V]) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) square += (x[j] - mean) * (x[j] - mean);
      });
    square = group_reduce<Add>(t, square, width, slots);
    if (!mine) return;
    const float scale = reciprocal_root(square / columns + a.epsilon);
    for_each(a, r, at, width, held, [&](std::int64_t i, const float(&x)[V]) {
      float gamma[V], y[V];
      load_gamma<V>(a, i, gamma);
      STOA_UNROLL
      for (int j = 0; j < V; ++j) y[j] = (x[j] - mean) * scale * gamma[j];
      if (a.beta) {
        float beta[V];
        load_pack<V>(a.beta + i, beta);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) y[j] += beta[j];
      }
      store_pack<V>(begin_of_row<Y, kPlain>(a.y, r) + i, y);
    });
    if (a.stats && at == 0) {
      a.stats[2 * r] = mean;
      a.stats[2 * r + 1] = scale;
    }
  }
};

// A group of `width` threads, whole warps, walks rows; a thread owns the same columns of all of them and
// keeps their sums. The groups of a block take its rows in turn.
struct BackwardArgs {
  NormArgs norm;
  std::int64_t rows_per_block;
  int width;
};

template <class X, class Y, int V, bool kPlain>
struct BackwardKernel {
  using Args = BackwardArgs;
  static constexpr const char* kName = "norm backward";
  static constexpr int kThreads = kPlain ? kWideBlock : kBlock;

  struct Pack {
    RawPack<X, V> x;
    RawPack<Y, V> dy;
    RawPack<X, V> dresidual;

    STOA_DEVICE void load(const NormArgs& a, std::int64_t r, std::int64_t i) {
      x.load(begin_of_row<X, kPlain>(a.x, r) + i);
      dy.load(begin_of_row<Y, kPlain>(a.dy, r) + i);
      if (a.dresidual.data) dresidual.load(begin_of_row<X, kPlain>(a.dresidual, r) + i);
    }
  };
  // What a thread has of a row. The next row is read while this one is computed.
  struct Row {
    Pack packs[kHold];
    float mean, scale;

    STOA_DEVICE void load(const NormArgs& a, std::int64_t r, std::int64_t first, std::int64_t step) {
      mean = a.stats[2 * r], scale = a.stats[2 * r + 1];
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k)
        if (first + k * step < a.columns) packs[k].load(a, r, first + k * step);
    }
  };

  // h, the normalised x, and dy.
  STOA_DEVICE static void values(const Row& row, const Pack& p, float (&h)[V], float (&dy)[V]) {
    p.x.read(h);
    p.dy.read(dy);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) h[j] = (h[j] - row.mean) * row.scale;
  }
  STOA_DEVICE static void add(const NormArgs& a, std::int64_t i, const float (&h)[V], const float (&dy)[V],
                              Pair& sums) {
    float gamma[V];
    load_gamma<V>(a, i, gamma);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) {
      sums.first += dy[j] * gamma[j];
      sums.second += dy[j] * gamma[j] * h[j];
    }
  }
  STOA_DEVICE static void write(const NormArgs& a, std::int64_t r, std::int64_t i, const Row& row, Pair mean,
                                const Pack& p) {
    float gamma[V], h[V], dy[V], dx[V];
    load_gamma<V>(a, i, gamma);
    values(row, p, h, dy);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) dx[j] = row.scale * (dy[j] * gamma[j] - mean.first - h[j] * mean.second);
    if (a.dresidual.data) {
      float residual[V];
      p.dresidual.read(residual);
      STOA_UNROLL
      for (int j = 0; j < V; ++j) dx[j] += residual[j];
    }
    store_pack<V>(begin_of_row<X, kPlain>(a.dx, r) + i, dx);
    if (!a.dbranch.data) return;
    if constexpr (!kPlain) apply_dropout<V>(a.dropout, r * a.columns + i, dx);
    store_pack<V>(begin_of_row<Y, kPlain>(a.dbranch, r) + i, dx);
  }

  // Sums of the groups, in order, to partial.
  STOA_DEVICE static void add_groups(const Thread& t, std::int64_t columns, int width,
                                     const float (&own)[kHold][V], float* partial) {
    const int group = t.index() / width, groups = t.count() / width;
    const std::int64_t first = std::int64_t{t.index() % width} * V, step = std::int64_t{width} * V;
    auto* shared = t.shared<float>();
    if (groups > 1) t.sync();
    STOA_UNROLL
    for (int k = 0; k < kHold; ++k) {
      const std::int64_t i = first + k * step;
      if (i < columns) store_pack<V>(groups > 1 ? shared + group * columns + i : partial + i, own[k]);
    }
    if (groups == 1) return;
    t.sync();
    for (std::int64_t i = t.index(); i < columns; i += t.count()) {
      float sum = shared[i];
      for (int g = 1; g < groups; ++g) sum += shared[g * columns + i];
      partial[i] = sum;
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const NormArgs& a = args.norm;
    const int width = args.width, groups = t.count() / width;
    const std::int64_t first = std::int64_t{t.index() % width} * V, step = std::int64_t{width} * V;
    float* partial = a.partial + t.block_x() * 2 * a.columns;
    float dgamma[kHold][V], dbeta[kHold][V];
    STOA_UNROLL
    for (int k = 0; k < kHold; ++k) {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) dgamma[k][j] = dbeta[k][j] = 0;
    }
    // Columns beyond what is kept: then a block is one group.
    const std::int64_t beyond = first + kHold * step;
    for (std::int64_t i = beyond; !kPlain && i < a.columns; i += step) {
      for (int j = 0; j < V; ++j) partial[i + j] = partial[a.columns + i + j] = 0;
    }
    const std::int64_t begin = t.block_x() * args.rows_per_block;
    const std::int64_t end = begin + args.rows_per_block < a.rows ? begin + args.rows_per_block : a.rows;
    const auto columns = static_cast<float>(a.columns);
    Row row, next;
    std::int64_t r = begin + t.index() / width;
    if (r < end) next.load(a, r, first, step);
    // As many turns for every group: they meet at barriers.
    for (std::int64_t turn = begin; turn < end; turn += groups, r += groups) {
      row = next;
      if (r + groups < end) next.load(a, r + groups, first, step);
      Pair sums{0, 0};
      if (r < end) {
        float h[V], dy[V];
        STOA_UNROLL
        for (int k = 0; k < kHold; ++k) {
          const std::int64_t i = first + k * step;
          if (i >= a.columns) continue;
          values(row, row.packs[k], h, dy);
          add(a, i, h, dy, sums);
          STOA_UNROLL
          for (int j = 0; j < V; ++j) {
            dgamma[k][j] += dy[j] * h[j];
            dbeta[k][j] += dy[j];
          }
        }
        for (std::int64_t i = beyond; !kPlain && i < a.columns; i += step) {
          Pack p;
          p.load(a, r, i);
          values(row, p, h, dy);
          add(a, i, h, dy, sums);
          for (int j = 0; j < V; ++j) {
            partial[i + j] += dy[j] * h[j];
            partial[a.columns + i + j] += dy[j];
          }
        }
      }
      sums = group_reduce<Add>(t, sums, width, t.shared<Pair>());
      if (r >= end) continue;
      const Pair mean{a.centred ? sums.first / columns : 0.0f, sums.second / columns};
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k)
        if (first + k * step < a.columns) write(a, r, first + k * step, row, mean, row.packs[k]);
      for (std::int64_t i = beyond; !kPlain && i < a.columns; i += step) {
        Pack p;
        p.load(a, r, i);
        write(a, r, i, row, mean, p);
      }
    }
    add_groups(t, a.columns, width, dgamma, partial);
    add_groups(t, a.columns, width, dbeta, partial + a.columns);
  }
};

// Rows of one element: the gradient is what is left when all else cancels, so it is computed in fp64.
template <class X, class Y>
struct BackwardOfOneKernel {
  using Args = NormArgs;
  static constexpr const char* kName = "norm backward of one column";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* slots = t.shared<float>();
    float dgamma = 0, dbeta = 0;
    for (std::int64_t r = t.index(); r < a.rows; r += t.count()) {
      const double mean = static_cast<double>(a.stats[2 * r]),
                   scale = static_cast<double>(a.stats[2 * r + 1]);
      const double h = (static_cast<double>(widen(*row_of<X>(a.x, r))) - mean) * scale;
      const double dy = static_cast<double>(widen(*row_of<Y>(a.dy, r))),
                   g = a.gamma ? dy * static_cast<double>(a.gamma[0]) : dy;
      double dx = scale * (g - (a.centred ? g : 0) - h * (g * h));
      if (a.dresidual.data) dx += static_cast<double>(widen(*row_of<X>(a.dresidual, r)));
      dgamma += static_cast<float>(dy * h);
      dbeta += static_cast<float>(dy);
      float out[1] = {static_cast<float>(dx)};
      store_pack<1>(row_of<X>(a.dx, r), out);
      if (!a.dbranch.data) continue;
      apply_dropout<1>(a.dropout, r, out);
      store_pack<1>(row_of<Y>(a.dbranch, r), out);
    }
    dgamma = block_reduce<Add>(t, dgamma, slots);
    dbeta = block_reduce<Add>(t, dbeta, slots);
    if (t.index() != 0) return;
    a.partial[0] = dgamma;
    a.partial[1] = dbeta;
  }
};

constexpr int kSumWarps = 16;

// A block has 32 columns; its warps take blocks w, w + 16, …
struct PartialsKernel {
  using Args = PartialSums;
  static constexpr const char* kName = "add partial sums";
  static constexpr int kThreads = kSumWarps * 32;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* slots = t.shared<float>();
    const std::int64_t column = t.block_x() * 32 + t.lane();
    float sum = 0;
    if (column < a.columns) {
      STOA_UNROLL
      for (std::int64_t b = t.warp(); b < a.blocks; b += kSumWarps) sum += a.partial[b * a.stride + column];
    }
    slots[t.warp() * 32 + t.lane()] = sum;
    t.sync();
    if (t.warp() != 0 || column >= a.columns) return;
    for (int w = 1; w < kSumWarps; ++w) sum += slots[w * 32 + t.lane()];
    a.out[column] = a.accumulate ? a.out[column] + sum : sum;
  }
};

struct ColumnSumArgs {
  ColumnSums sums;
  std::int64_t rows_per_block;
};

// A warp reads 32 packs of neighbouring columns; the eight warps of a block take rows in turn.
template <class X, int V>
struct ColumnSumKernel {
  using Args = ColumnSumArgs;
  static constexpr const char* kName = "column sums";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const ColumnSums& a = args.sums;
    auto* slots = t.shared<float>();
    const std::int64_t column = (t.block_x() * 32 + t.lane()) * V;
    const bool mine = column < a.x.columns;
    const std::int64_t begin = t.block_y() * args.rows_per_block;
    const std::int64_t end = begin + args.rows_per_block < a.rows ? begin + args.rows_per_block : a.rows;
    float sum[V];
    STOA_UNROLL
    for (int j = 0; j < V; ++j) sum[j] = 0;
    if (mine) {
      constexpr int kAhead = 4;  // rows that are read before the first is added
      for (std::int64_t r = begin + t.warp(); r < end; r += kAhead * t.warps()) {
        RawPack<X, V> packs[kAhead];
        STOA_UNROLL
        for (int k = 0; k < kAhead; ++k)
          if (r + k * t.warps() < end) packs[k].load(row_of<X>(a.x, r + k * t.warps()) + column);
        STOA_UNROLL
        for (int k = 0; k < kAhead; ++k) {
          if (r + k * t.warps() >= end) continue;
          float x[V];
          packs[k].read(x);
          STOA_UNROLL
          for (int j = 0; j < V; ++j) sum[j] += x[j];
        }
      }
    }
    STOA_UNROLL
    for (int j = 0; j < V; ++j) slots[(t.warp() * V + j) * 32 + t.lane()] = sum[j];
    t.sync();
    if (t.warp() != 0 || !mine) return;
    for (int w = 1; w < t.warps(); ++w) {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) sum[j] += slots[(w * V + j) * 32 + t.lane()];
    }
    float* out = a.partial + t.block_y() * a.x.columns + column;
    STOA_UNROLL
    for (int j = 0; j < V; ++j) out[j] = sum[j];
  }
};

// Calls body(x, branch, y) with the types of the stream, of the branch and of what is normalised: all equal,
// or an fp32 stream with 16-bit branches, normalised to either.
template <class Body>
void with_types(Element x, Element branch, Element y, Body&& body) {
  with_fast_type(branch, [&](auto layer) {
    using B = decltype(layer);
    if (x == branch)
      body(B{}, B{}, B{});
    else if (y == branch)
      body(float{}, B{}, B{});
    else
      body(float{}, B{}, float{});
  });
}

std::int64_t rows_per_block(std::int64_t rows, std::int64_t columns) {
  if (columns == 1) return rows < 1 ? 1 : rows;
  const std::int64_t most = 528;  // four on each of 132 multiprocessors
  const std::int64_t each = ceil_div(rows, most);
  return each < 4 ? 4 : each;
}

// Calls body(Width<V>{}, kPlain) for what the rows of a call are like. Plain ones: whole packs that registers
// hold, no dropout, no parts of longer rows.
template <class Body>
void with_form(const NormArgs& a, Body&& body) {
  const auto whole = [](const Rows& rows) { return !rows.data || rows.inner == 1; };
  const bool plain = a.wide && a.dropout.p == 0 && a.columns <= kMostHeld && whole(a.x) && whole(a.branch) &&
                     whole(a.sum) && whole(a.y) && whole(a.dy) && whole(a.dresidual) && whole(a.dx) &&
                     whole(a.dbranch);
  if (plain)
    body(Width<8>{}, std::true_type{});
  else if (a.wide)
    body(Width<8>{}, std::false_type{});
  else
    body(Width<1>{}, std::false_type{});
}

}  // namespace

void launch_norm_forward(const NormArgs& a, void* stream) {
  const std::int64_t packs = a.wide ? a.columns / 8 : a.columns;
  int width = 8;
  while (width < kWideBlock && width * kHold < packs) width *= 2;
  if (width < 32 && packs > width) width = packs > 16 ? 32 : 16;  // a warp reads what lies together at once
  const int threads = width > kBlock ? width : kBlock;
  const Grid grid{
      .x = ceil_div(a.rows, threads / width), .threads = threads, .shared = kWideBlock / 32 * sizeof(float)};
  with_types(a.x.type, a.branch.data ? a.branch.type : a.y.type, a.y.type, [&](auto x, auto branch, auto y) {
    with_form(a, [&](auto v, auto plain) {
      launch<ForwardKernel<decltype(x), decltype(branch), decltype(y), decltype(v)::value,
                           decltype(plain)::value>>(grid, stream, {a, width});
    });
  });
}

std::int64_t norm_blocks(std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = ceil_div(rows, rows_per_block(rows, columns));
  return blocks < 1 ? 1 : blocks;
}

void launch_norm_backward(const NormArgs& a, void* stream) {
  with_types(a.x.type, a.dy.type, a.dy.type, [&](auto x, auto, auto y) {
    using X = decltype(x);
    using Y = decltype(y);
    if (a.columns == 1) {
      launch<BackwardOfOneKernel<X, Y>>({.x = 1, .threads = kBlock, .shared = kBlock / 32 * sizeof(float)},
                                        stream, a);
      return;
    }
    with_form(a, [&](auto v, auto plain) {
      using Kernel = BackwardKernel<X, Y, decltype(v)::value, decltype(plain)::value>;
      const std::int64_t packs = ceil_div(a.columns, decltype(v)::value);
      const int width = round_up_warps(ceil_div(packs, kHold), Kernel::kThreads), least = 128;
      const int groups = width < least ? least / width : 1;
      const std::size_t sums = groups > 1 ? static_cast<std::size_t>(groups * a.columns) * sizeof(float) : 0;
      const std::size_t slots = kWideBlock / 32 * sizeof(Pair);
      const Grid grid{.x = norm_blocks(a.rows, a.columns),
                      .threads = groups * width,
                      .shared = sums > slots ? sums : slots};
      launch<Kernel>(grid, stream, {a, rows_per_block(a.rows, a.columns), width});
    });
  });
}

void launch_add_partials(const PartialSums& a, void* stream) {
  launch<PartialsKernel>(
      {.x = ceil_div(a.columns, 32), .threads = kSumWarps * 32, .shared = kSumWarps * 32 * sizeof(float)},
      stream, a);
}

std::int64_t column_sum_blocks(std::int64_t rows) {
  const std::int64_t blocks = ceil_div(rows, 256);
  return blocks < 1 ? 1 : blocks > 128 ? 128 : blocks;
}

void launch_column_sums(const ColumnSums& a, void* stream) {
  const std::int64_t blocks = column_sum_blocks(a.rows);
  with_fast_type(a.x.type, [&](auto x) {
    with_width(a.wide, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      launch<ColumnSumKernel<decltype(x), kV>>({.x = ceil_div(a.x.columns, 32 * kV),
                                                .y = blocks,
                                                .threads = kBlock,
                                                .shared = kBlock * kV * sizeof(float)},
                                               stream, {a, ceil_div(a.rows, blocks)});
    });
  });
}

}  // namespace stoa::ops::cuda
