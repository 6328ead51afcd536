#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/random.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256, kBackwardBlock = 512;
constexpr int kHold = 4;  // packs of a row that a thread keeps in registers; what is beyond is read again

// A group of `width` threads has a row; a block of 256 has 256 / width rows.
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

template <class X, class B, class Y, int V>
struct ForwardKernel {
  using Args = ForwardArgs;
  static constexpr const char* kName = "norm forward";
  static constexpr int kThreads = kBlock;

  // x + branch as it is stored, which is what is normalised.
  STOA_DEVICE static void add_branch(const NormArgs& a, std::int64_t r, std::int64_t i, float (&branch)[V],
                                     float (&x)[V]) {
    apply_dropout<V>(a.dropout, r * a.columns + i, branch);
    STOA_UNROLL
    for (int j = 0; j < V; ++j) x[j] = rounded<X>(x[j] + branch[j]);
    store_pack<V>(row_of<X>(a.sum, r) + i, x);
  }
  // Pack `i` of the row as it is normalised; the sum with the branch is written on the first reading.
  STOA_DEVICE static void load(const NormArgs& a, std::int64_t r, std::int64_t i, bool first, float (&x)[V]) {
    if (!first && a.branch.data) return load_pack<V>(row_of<X>(a.sum, r) + i, x);
    load_pack<V>(row_of<X>(a.x, r) + i, x);
    if (!a.branch.data) return;
    float branch[V];
    load_pack<V>(row_of<B>(a.branch, r) + i, branch);
    add_branch(a, r, i, branch, x);
  }

  // Calls body(pack index, values) for the packs of this thread, the first kHold from `held`.
  template <class Body>
  STOA_DEVICE static void for_each(const NormArgs& a, std::int64_t r, int at, int width,
                                   float (&held)[kHold][V], Body&& body) {
    const std::int64_t step = std::int64_t{width} * V;
    std::int64_t i = std::int64_t{at} * V;
    STOA_UNROLL
    for (int k = 0; k < kHold; ++k, i += step)
      if (i < a.columns) body(i, held[k]);
    for (; i < a.columns; i += step) {
      float x[V];
      load(a, r, i, false, x);
      body(i, x);
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const NormArgs& a = args.norm;
    const int width = args.width, at = t.index() % width;
    const std::int64_t r = t.block_x() * (t.count() / width) + t.index() / width;
    const bool mine = r < a.rows;
    auto* slots = t.shared<float>();
    float held[kHold][V];
    float sum = 0;
    if (mine) {
      const std::int64_t step = std::int64_t{width} * V;
      std::int64_t i = std::int64_t{at} * V;
      const auto add = [&](const float(&x)[V]) {
        STOA_UNROLL
        for (int j = 0; j < V; ++j) sum += x[j];
      };
      // All that a thread holds is read before the first sum is stored: sum may be x, so reads would wait for
      // it.
      float branch[kHold][V];
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k) {
        if (i + k * step >= a.columns) continue;
        load_pack<V>(row_of<X>(a.x, r) + i + k * step, held[k]);
        if (a.branch.data) load_pack<V>(row_of<B>(a.branch, r) + i + k * step, branch[k]);
      }
      STOA_UNROLL
      for (int k = 0; k < kHold; ++k, i += step) {
        if (i >= a.columns) continue;
        if (a.branch.data) add_branch(a, r, i, branch[k], held[k]);
        add(held[k]);
      }
      for (; i < a.columns; i += step) {
        float x[V];
        load(a, r, i, true, x);
        add(x);
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
      store_pack<V>(row_of<Y>(a.y, r) + i, y);
    });
    if (a.stats && at == 0) {
      a.stats[2 * r] = mean;
      a.stats[2 * r + 1] = scale;
    }
  }
};

// A block walks its rows one by one; a thread owns the same columns of all of them and keeps their sums.
struct BackwardArgs {
  NormArgs norm;
  std::int64_t rows_per_block;
};

template <class X, class Y, int V, int kKeep>
struct BackwardKernel {
  using Args = BackwardArgs;
  static constexpr const char* kName = "norm backward";
  static constexpr int kThreads = kBackwardBlock;

  struct Pack {
    float x[V], dy[V], dresidual[V];
  };

  STOA_DEVICE static void load(const NormArgs& a, std::int64_t r, std::int64_t i, float mean, float scale,
                               Pack& p) {
    load_pack<V>(row_of<X>(a.x, r) + i, p.x);
    load_pack<V>(row_of<Y>(a.dy, r) + i, p.dy);
    if (a.dresidual.data) {
      load_pack<V>(row_of<X>(a.dresidual, r) + i, p.dresidual);
    } else {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) p.dresidual[j] = 0;
    }
    STOA_UNROLL
    for (int j = 0; j < V; ++j) p.x[j] = (p.x[j] - mean) * scale;  // h
  }

  STOA_DEVICE static void write(const NormArgs& a, std::int64_t r, std::int64_t i, float scale, float mean_g,
                                float mean_gh, const Pack& p) {
    float gamma[V], dx[V];
    load_gamma<V>(a, i, gamma);
    STOA_UNROLL
    for (int j = 0; j < V; ++j)
      dx[j] = scale * (p.dy[j] * gamma[j] - mean_g - p.x[j] * mean_gh) + p.dresidual[j];
    store_pack<V>(row_of<X>(a.dx, r) + i, dx);
    if (!a.dbranch.data) return;
    apply_dropout<V>(a.dropout, r * a.columns + i, dx);
    store_pack<V>(row_of<Y>(a.dbranch, r) + i, dx);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    const NormArgs& a = args.norm;
    auto* slots = t.shared<Pair>();
    const std::int64_t step = std::int64_t{t.count()} * V, first = std::int64_t{t.index()} * V;
    float* partial = a.partial + t.block_x() * 2 * a.columns;
    float dgamma[kKeep][V], dbeta[kKeep][V];
    STOA_UNROLL
    for (int k = 0; k < kKeep; ++k) {
      STOA_UNROLL
      for (int j = 0; j < V; ++j) dgamma[k][j] = dbeta[k][j] = 0;
    }
    for (std::int64_t i = first + kKeep * step; i < a.columns; i += step) {
      for (int j = 0; j < V; ++j) partial[i + j] = partial[a.columns + i + j] = 0;
    }
    const std::int64_t begin = t.block_x() * args.rows_per_block;
    const std::int64_t end = begin + args.rows_per_block < a.rows ? begin + args.rows_per_block : a.rows;
    const auto columns = static_cast<float>(a.columns);
    for (std::int64_t r = begin; r < end; ++r) {
      const float mean = a.stats[2 * r], scale = a.stats[2 * r + 1];
      Pack held[kKeep];
      float g = 0, gh = 0;
      const auto sums = [&](std::int64_t i, const Pack& p) {
        float gamma[V];
        load_gamma<V>(a, i, gamma);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) {
          g += p.dy[j] * gamma[j];
          gh += p.dy[j] * gamma[j] * p.x[j];
        }
      };
      std::int64_t i = first;
      STOA_UNROLL
      for (int k = 0; k < kKeep; ++k, i += step) {
        if (i >= a.columns) continue;
        load(a, r, i, mean, scale, held[k]);
        sums(i, held[k]);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) {
          dgamma[k][j] += held[k].dy[j] * held[k].x[j];
          dbeta[k][j] += held[k].dy[j];
        }
      }
      for (; i < a.columns; i += step) {
        Pack p;
        load(a, r, i, mean, scale, p);
        sums(i, p);
        for (int j = 0; j < V; ++j) {
          partial[i + j] += p.dy[j] * p.x[j];
          partial[a.columns + i + j] += p.dy[j];
        }
      }
      const Pair sum = block_reduce<Add>(t, Pair{g, gh}, slots);
      const float mean_g = a.centred ? sum.first / columns : 0.0f, mean_gh = sum.second / columns;
      i = first;
      STOA_UNROLL
      for (int k = 0; k < kKeep; ++k, i += step)
        if (i < a.columns) write(a, r, i, scale, mean_g, mean_gh, held[k]);
      for (; i < a.columns; i += step) {
        Pack p;
        load(a, r, i, mean, scale, p);
        write(a, r, i, scale, mean_g, mean_gh, p);
      }
    }
    std::int64_t i = first;
    STOA_UNROLL
    for (int k = 0; k < kKeep; ++k, i += step) {
      if (i >= a.columns) continue;
      store_pack<V>(partial + i, dgamma[k]);
      store_pack<V>(partial + a.columns + i, dbeta[k]);
    }
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
      for (std::int64_t r = begin + t.warp(); r < end; r += t.warps()) {
        float x[V];
        load_pack<V>(row_of<X>(a.x, r) + column, x);
        STOA_UNROLL
        for (int j = 0; j < V; ++j) sum[j] += x[j];
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
  const std::int64_t most = 660;  // all at once on 108 to 132 multiprocessors: 5 on each of the latter
  const std::int64_t each = ceil_div(rows, most);
  return each < 4 ? 4 : each;
}

}  // namespace

void launch_norm_forward(const NormArgs& a, void* stream) {
  const std::int64_t packs = a.wide ? a.columns / 8 : a.columns;
  int width = 8;
  while (width < kBlock && width * kHold < packs) width *= 2;
  if (width < 32 && packs > width) width = packs > 16 ? 32 : 16;  // a warp reads what lies together at once
  const Grid grid{
      .x = ceil_div(a.rows, kBlock / width), .threads = kBlock, .shared = kBlock / 32 * sizeof(float)};
  with_types(a.x.type, a.branch.data ? a.branch.type : a.y.type, a.y.type, [&](auto x, auto branch, auto y) {
    with_width(a.wide, [&](auto v) {
      launch<ForwardKernel<decltype(x), decltype(branch), decltype(y), decltype(v)::value>>(grid, stream,
                                                                                            {a, width});
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
    with_width(a.wide, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      const std::int64_t packs = ceil_div(a.columns, kV);
      // As many threads as have work, in equal shares.
      const std::int64_t each = ceil_div(packs, kBackwardBlock);
      const int threads = round_up_warps(ceil_div(packs, each), kBackwardBlock);
      const Grid grid{.x = norm_blocks(a.rows, a.columns),
                      .threads = threads,
                      .shared = kBackwardBlock / 32 * sizeof(Pair)};
      const BackwardArgs args{a, rows_per_block(a.rows, a.columns)};
      if (each <= 1)
        launch<BackwardKernel<X, Y, kV, 1>>(grid, stream, args);
      else
        launch<BackwardKernel<X, Y, kV, 2>>(grid, stream, args);
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
  return blocks < 1 ? 1 : blocks > 64 ? 64 : blocks;
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
