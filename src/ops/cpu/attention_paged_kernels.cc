// Attention of inference over keys and values in blocks. A row is a query and a head; all rows of a task read
// the same keys: a few rows at a time from registers, or sixteen in a tile of AMX.
#include "ops/cpu/attention_paged.h"
#include "ops/cpu/attention_paged_tiles.h"
#include "ops/cpu/reduce_eight.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

constexpr int kPagedRows = 4;     // whose products are formed together
constexpr int kPagedVectors = 4;  // of values, likewise

// Memory of a task, in floats.
template <class Products>
struct PagedMemory {
  std::int64_t scores, alpha, top, sum, output, products, end;
  PagedMemory(std::int64_t rows, std::int64_t d) {
    scores = 0;  // [rows][kBlock]: scores, then weights
    alpha = scores + rows * kBlock;
    top = alpha + rows;
    sum = round_up(top + rows, kLanes);  // [rows][kLanes]
    output = sum + rows * kLanes;        // [rows][padded d]
    products = output + Products::output_rows(rows) * padded(d);
    end = products + Products::floats(rows, d);
  }
};

// Steps along a head: floats converted from E, or pairs of bf16 with exact products.
template <class E>
struct PagedFloats {
  using Type = E;
  static constexpr int kStep = kLanes;
  STOA_INLINE F get(const typename E::Storage* p, Full) { return E::get(p, Full{}); }
  STOA_INLINE F get(const typename E::Storage* p, First f) { return E::get(p, f); }
  STOA_INLINE F product(F a, F b, F c) { return fma(a, b, c); }
};
#if STOA_ISA_LEVEL >= 3
struct PagedPairs {
  using Type = BF16;
  static constexpr int kStep = 2 * kLanes;
  STOA_INLINE F get(const std::uint16_t* p, Full) { return reinterpret_cast<F>(_mm512_loadu_epi16(p)); }
  STOA_INLINE F get(const std::uint16_t* p, First f) {
    return reinterpret_cast<F>(_mm512_maskz_loadu_epi16((1u << f.count) - 1u, p));
  }
  STOA_INLINE F product(F a, F b, F c) { return Pairs::product(a, b, c); }
};
#endif

// Products of kRows rows of queries with all keys of a block: scores[r][j] = scale q[r] . k[j].
template <class P, int kRows>
STOA_INLINE void paged_scores(const typename P::Type::Storage* const* q,
                              const PagedKeys<typename P::Type::Storage>& keys,
                              const PagedKeys<typename P::Type::Storage>* next, std::int64_t d, float scale,
                              float* scores) {
  constexpr int kAtOnce = 8 / kRows;
  for (std::int64_t j = 0; j < keys.count; j += kAtOnce) {
    const typename P::Type::Storage* k[kAtOnce];
#pragma GCC unroll 8
    for (int t = 0; t < kAtOnce; ++t) {
      const std::int64_t at = j + t < keys.count ? j + t : keys.count - 1;
      k[t] = keys.k[at];
      if (next) {
        fetch_row<typename P::Type>(keys.v[at], d);
        if (at < next->count) fetch_row<typename P::Type>(next->k[at], d);
      }
    }
    F eight[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) eight[i] = F{};
    const auto step = [&](std::int64_t i, auto part) __attribute__((always_inline)) {
      F key[kAtOnce];
#pragma GCC unroll 8
      for (int t = 0; t < kAtOnce; ++t) key[t] = P::get(k[t] + i, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const F query = P::get(q[r] + i, part);
#pragma GCC unroll 8
        for (int t = 0; t < kAtOnce; ++t)
          eight[r * kAtOnce + t] = P::product(query, key[t], eight[r * kAtOnce + t]);
      }
    };
    std::int64_t i = 0;
    for (; i + P::kStep <= d; i += P::kStep) step(i, Full{});
    if (i < d) step(i, First{static_cast<int>(d - i)});
    float sums[8];
    reduce8(eight, sums);
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kAtOnce && j + t < kBlock; ++t)
        scores[r * kBlock + j + t] = sums[r * kAtOnce + t] * scale;
  }
}

// output[r] = output[r] * alpha[r] + sum over keys of weight * value, for kRows rows.
template <class E, int kRows>
STOA_INLINE void paged_output(const PagedKeys<typename E::Storage>& keys, const float* weights,
                              const float* alpha, std::int64_t d, float* output) {
  const std::int64_t dp = padded(d);
  const auto columns = [&](std::int64_t column, auto vectors, auto part) __attribute__((always_inline)) {
    constexpr int kVectors = vectors.value;
    F total[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int u = 0; u < kVectors; ++u)
        total[r][u] = load(output + r * dp + column + u * kLanes) * splat(alpha[r]);
    for (std::int64_t j = 0; j < keys.count; ++j) {
      F value[kVectors];
#pragma GCC unroll 4
      for (int u = 0; u < kVectors; ++u) value[u] = E::get(keys.v[j] + column + u * kLanes, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const F weight = splat(weights[r * kBlock + j]);
#pragma GCC unroll 4
        for (int u = 0; u < kVectors; ++u) total[r][u] = fma(weight, value[u], total[r][u]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int u = 0; u < kVectors; ++u) store(output + r * dp + column + u * kLanes, total[r][u]);
  };
  constexpr int kWide = kRegisters == 32 ? kPagedVectors : 2;
  std::int64_t column = 0;
  for (; column + kWide * kLanes <= d; column += kWide * kLanes) columns(column, Constant<kWide>{}, Full{});
  for (; column + kLanes <= d; column += kLanes) columns(column, Constant<1>{}, Full{});
  if (column < d) columns(column, Constant<1>{}, First{static_cast<int>(d - column)});
}

// body(first row, number of rows as a constant)
template <class Body>
STOA_INLINE void for_row_groups(std::int64_t rows, Body body) {
  std::int64_t r = 0;
  for (; r + kPagedRows <= rows; r += kPagedRows) body(r, Constant<kPagedRows>{});
  if (rows - r == 3) return body(r, Constant<3>{});
  if (rows - r == 2) return body(r, Constant<2>{});
  if (rows - r == 1) return body(r, Constant<1>{});
}

// Products of a few rows at a time from registers.
template <class P>
class PagedRegisterProducts {
 public:
  using Type = typename P::Type;
  using Storage = typename Type::Storage;

  static std::int64_t floats(std::int64_t rows, std::int64_t) {
    return rows * static_cast<std::int64_t>(sizeof(const Storage*) / sizeof(float));
  }
  static std::int64_t output_rows(std::int64_t rows) { return rows; }

  PagedRegisterProducts(const AttentionArgs& args, const PagedHeads&, std::int64_t rows, float* memory)
      : rows_(rows), d_(args.d), scale_(args.scale), queries_(reinterpret_cast<const Storage**>(memory)) {}

  template <class RowOf>
  [[gnu::always_inline]] void pack_queries(RowOf row_of) {
    for (std::int64_t r = 0; r < rows_; ++r) queries_[r] = row_of(r);
  }
  [[gnu::always_inline]] void scores(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next,
                                     float* scores) {
    for_row_groups(
        rows_, [&](std::int64_t r, auto count) __attribute__((always_inline)) {
          paged_scores<P, count.value>(queries_ + r, keys, r == 0 ? &next : nullptr, d_, scale_,
                                       scores + r * kBlock);
        });
  }
  [[gnu::always_inline]] void add_values(const PagedKeys<Storage>& keys, const float* weights,
                                         const float* alpha, float* output) {
    for_row_groups(
        rows_, [&](std::int64_t r, auto count) __attribute__((always_inline)) {
          paged_output<Type, count.value>(keys, weights + r * kBlock, alpha + r, d_, output + r * padded(d_));
        });
  }
  STOA_INLINE F power(F x) { return exp(x); }

 private:
  std::int64_t rows_, d_;
  float scale_;
  const Storage** queries_;  // rows of queries
};

template <class Products>
void paged_task(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                float* memory) {
  using E = typename Products::Type;
  using Storage = typename Products::Storage;
  const std::int64_t d = args.d, dp = padded(d), per_query = heads.end_head - heads.first_head,
                     rows = per_query * (heads.end - heads.begin);
  const std::int64_t group = heads.first_head / (args.heads / args.groups);
  const PagedMemory<Products> at(rows, d);
  float *scores = memory + at.scores, *alpha = memory + at.alpha, *top = memory + at.top,
        *sum = memory + at.sum, *output = memory + at.output;
  for (std::int64_t r = 0; r < rows; ++r) {
    top[r] = -kInfinity;
    store(sum + r * kLanes, F{});
  }
  std::memset(output, 0, static_cast<std::size_t>(rows * dp) * sizeof(float));
  const auto query_of = [&](std::int64_t row) { return heads.begin + row / per_query; };
  const auto head_of = [&](std::int64_t row) { return heads.first_head + row % per_query; };
  Products products(args, heads, rows, memory + at.products);
  products.pack_queries([&](std::int64_t row) {
    return static_cast<const Storage*>(args.q.data) + (segment.q_row + query_of(row)) * args.q.stride +
           head_of(row) * d;
  });
  const Visible see{args, segment};
  const std::int64_t last_key = see.last(heads.end - 1);
  const auto find = [&](std::int64_t k0, PagedKeys<Storage>& keys) {
    keys.count = last_key - k0 < kBlock ? last_key - k0 : kBlock;
    for (std::int64_t j = 0; j < keys.count; ++j) {
      const std::int64_t key = k0 + j;
      const std::int64_t row =
          heads.blocks[key / heads.block_rows] * heads.block_rows + key % heads.block_rows;
      keys.k[j] = static_cast<const Storage*>(args.k.data) + row * args.k.stride + group * d;
      keys.v[j] = static_cast<const Storage*>(args.v.data) + row * args.v.stride + group * d;
    }
  };
  PagedKeys<Storage> here, next;
  const std::int64_t first_block = see.first(heads.begin) / kBlock * kBlock;
  if (first_block < last_key) find(first_block, next);
  for (std::int64_t k0 = first_block; k0 < last_key; k0 += kBlock) {
    here = next;
    next.count = 0;
    if (k0 + kBlock < last_key) find(k0 + kBlock, next);
    products.scores(here, next, scores);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = query_of(r), first = see.first(query) - k0, end = see.last(query) - k0;
      paged_weights(
          args, head_of(r), see.at(query), k0, first > 0 ? first : 0, end < here.count ? end : here.count,
          scores + r * kBlock, sum + r * kLanes, top + r, alpha + r,
          [](F x) __attribute__((always_inline)) { return Products::power(x); });
    }
    products.add_values(here, scores, alpha, output);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float norm = reduce_add(load(sum + r * kLanes));
    const float inverse = norm > 0 || norm != norm ? 1.0f / norm : 0.0f;
    const std::int64_t row = segment.q_row + query_of(r);
    auto* o = static_cast<Storage*>(args.o.data) + row * args.o.stride + head_of(r) * d;
    for_vectors(d,
                [&](std::int64_t i, auto part) { E::put(o + i, load(output + r * dp + i) * inverse, part); });
    if (args.lse)
      args.lse[row * args.heads + head_of(r)] = norm > 0 ? top[r] + __builtin_logf(norm) : -kInfinity;
  }
}

template <class T>
struct PagedKind {
  using Products = T;
};
// body(PagedKind of the products for a type)
template <class Body>
STOA_INLINE void with_products(Element type, Body body) {
#if STOA_ISA_LEVEL >= 3
  if (type == Element::kBF16) return body(PagedKind<PagedRegisterProducts<PagedPairs>>{});
#endif
  with_type(type, [&](auto tag) { body(PagedKind<PagedRegisterProducts<PagedFloats<decltype(tag)>>>{}); });
}

template <class Products>
std::size_t bytes_of(std::int64_t rows, std::int64_t d) {
  return static_cast<std::size_t>(PagedMemory<Products>(rows, d).end) * sizeof(float);
}

void forward(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
             void* memory) {
  with_products(args.q.type, [&](auto kind) {
    paged_task<typename decltype(kind)::Products>(args, segment, heads, static_cast<float*>(memory));
  });
}

std::size_t bytes(Element type, std::int64_t rows, std::int64_t d) {
  std::size_t out = 0;
  with_products(type, [&](auto kind) { out = bytes_of<typename decltype(kind)::Products>(rows, d); });
  return out;
}

#if STOA_ISA_LEVEL >= 3
void forward_on_tiles(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                      void* memory) {
  if (!fits_tiles(args.q.type, args.d)) return forward(args, segment, heads, memory);
  enter_tiles();
  paged_task<PagedTileProducts>(args, segment, heads, static_cast<float*>(memory));
  leave_tiles();
}

std::size_t bytes_on_tiles(Element type, std::int64_t rows, std::int64_t d) {
  return fits_tiles(type, d) ? bytes_of<PagedTileProducts>(rows, d) : bytes(type, rows, d);
}
#endif

}  // namespace

#if STOA_ISA_LEVEL >= 3
const AttentionPagedKernels& attention_paged_tile_kernels() {
  static constexpr AttentionPagedKernels kTable{forward_on_tiles, bytes_on_tiles};
  return kTable;
}
#endif

const AttentionPagedKernels& attention_paged_kernels() {
  static constexpr AttentionPagedKernels kTable{forward, bytes};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
