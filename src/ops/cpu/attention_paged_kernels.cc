// Attention of inference over keys and values in blocks. A row is a query and a head; all rows of a task read
// the same keys: a few rows at a time from registers, sixteen in a tile of AMX, or panels of 32 of them.
#include "ops/cpu/attention_paged.h"
#include "ops/cpu/attention_paged_panels.h"
#include "ops/cpu/attention_paged_spans.h"
#include "ops/cpu/attention_paged_tiles.h"
#include "ops/cpu/reduce_eight.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

constexpr int kPagedRows = 4;     // whose products are formed together
constexpr int kPagedVectors = 4;  // of values, likewise

// Memory of a task, in floats.
template <class Products>
struct PagedMemory {
  std::int64_t scores, alpha, span, total, products, end;
  PagedMemory(std::int64_t rows, std::int64_t d) {
    scores = 0;  // [rows][kBlock]: scores, then weights
    alpha = scores + rows * kBlock;
    total = round_up(alpha + rows, kLanes);
    span = total + PagedSoftmax::floats(rows, d);
    products = span + PagedSoftmax::floats(Products::output_rows(rows), d);
    end = products + Products::floats(rows, d);
  }
};

// Steps along a head: floats converted from E, or pairs of bf16 with exact products.
template <class E>
struct PagedFloats {
  using Query = typename E::Storage;
  using Keys = CachedFloats<E>;
  static constexpr bool kCopiesQueries = false;
  static constexpr int kStep = kLanes;
  template <class Part>
  STOA_INLINE F query(const Query* p, Part part) {
    return E::get(p, part);
  }
  template <class Part>
  STOA_INLINE F key(const Query* row, std::int64_t i, std::int64_t, Part part) {
    return E::get(row + i, part);
  }
  STOA_INLINE F product(F a, F b, F c) { return fma(a, b, c); }
};
#if STOA_ISA_LEVEL >= 3
struct PagedPairs {
  using Query = std::uint16_t;
  using Keys = CachedFloats<BF16>;
  static constexpr bool kCopiesQueries = false;
  static constexpr int kStep = 2 * kLanes;
  STOA_INLINE F query(const std::uint16_t* p, Full) { return reinterpret_cast<F>(_mm512_loadu_epi16(p)); }
  STOA_INLINE F query(const std::uint16_t* p, First f) {
    return reinterpret_cast<F>(_mm512_maskz_loadu_epi16((1u << f.count) - 1u, p));
  }
  template <class Part>
  STOA_INLINE F key(const std::uint16_t* row, std::int64_t i, std::int64_t, Part part) {
    return query(row + i, part);
  }
  STOA_INLINE F product(F a, F b, F c) { return Pairs::product(a, b, c); }
};
#endif
// Keys in a form of their own, by queries that are copied as floats.
template <class Keys_>
struct PagedMixed {
  using Query = float;
  using Keys = Keys_;
  static constexpr bool kCopiesQueries = true;
  static constexpr int kStep = kLanes;
  template <class Part>
  STOA_INLINE F query(const float* p, Part part) {
    return F32::get(p, part);
  }
  template <class Part>
  STOA_INLINE F key(const typename Keys::Storage* row, std::int64_t i, std::int64_t d, Part part) {
    return Keys::get(row, i, d, part);
  }
  STOA_INLINE F product(F a, F b, F c) { return fma(a, b, c); }
};

// Products of kRows rows of queries with all keys of a block: scores[r][j] = scale q[r] . k[j].
template <class P, int kRows>
STOA_INLINE void paged_scores(const typename P::Query* const* q,
                              const PagedKeys<typename P::Keys::Storage>& keys,
                              const PagedKeys<typename P::Keys::Storage>* next, std::int64_t d, float scale,
                              float* scores) {
  constexpr int kAtOnce = 8 / kRows;
  for (std::int64_t j = 0; j < keys.count; j += kAtOnce) {
    if (next) next->fetch_keys(j, j + kAtOnce);
    const typename P::Keys::Storage* k[kAtOnce];
#pragma GCC unroll 8
    for (int t = 0; t < kAtOnce; ++t) k[t] = keys.k[j + t < keys.count ? j + t : keys.count - 1];
    F eight[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) eight[i] = F{};
    const auto step = [&](std::int64_t i, auto part) __attribute__((always_inline)) {
      F key[kAtOnce];
#pragma GCC unroll 8
      for (int t = 0; t < kAtOnce; ++t) key[t] = P::key(k[t], i, d, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const F query = P::query(q[r] + i, part);
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
      for (int t = 0; t < kAtOnce; ++t) scores[r * kBlock + j + t] = sums[r * kAtOnce + t] * scale;
  }
}

// output[r] = output[r] * alpha[r] + sum over keys of weight * value, for kRows rows.
template <class Keys, int kRows>
STOA_INLINE void paged_output(const PagedKeys<typename Keys::Storage>& keys,
                              const PagedKeys<typename Keys::Storage>* next, const float* weights,
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
      if (next && column == 0) next->fetch_values(j, j + 1);
      F value[kVectors];
#pragma GCC unroll 4
      for (int u = 0; u < kVectors; ++u) value[u] = Keys::get(keys.v[j], column + u * kLanes, d, part);
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

// The same for all rows of a task.
template <class P>
STOA_INLINE void scores_of_rows(const typename P::Query* const* q,
                                const PagedKeys<typename P::Keys::Storage>& keys,
                                const PagedKeys<typename P::Keys::Storage>* next, std::int64_t rows,
                                std::int64_t d, float scale, float* scores) {
  for_row_groups(
      rows, [&](std::int64_t r, auto count) __attribute__((always_inline)) {
        paged_scores<P, count.value>(q + r, keys, r == 0 ? next : nullptr, d, scale, scores + r * kBlock);
      });
}
template <class Keys>
STOA_INLINE void add_rows(const PagedKeys<typename Keys::Storage>& keys,
                          const PagedKeys<typename Keys::Storage>* next, const float* weights,
                          const float* alpha, std::int64_t rows, std::int64_t d, float* output) {
  for_row_groups(
      rows, [&](std::int64_t r, auto count) __attribute__((always_inline)) {
        paged_output<Keys, count.value>(keys, r == 0 ? next : nullptr, weights + r * kBlock, alpha + r, d,
                                        output + r * padded(d));
      });
}

// Where keys and values were converted: compiled once, whatever they were before.
[[gnu::noinline]] void scores_of_floats(const float* const* q, const PagedKeys<float>& keys,
                                        std::int64_t rows, std::int64_t d, float scale, float* scores) {
  scores_of_rows<PagedFloats<F32>>(q, keys, nullptr, rows, d, scale, scores);
}
[[gnu::noinline]] void add_floats(const PagedKeys<float>& keys, const float* weights, const float* alpha,
                                  std::int64_t rows, std::int64_t d, float* output) {
  add_rows<CachedFloats<F32>>(keys, nullptr, weights, alpha, rows, d, output);
}

// Products of a few rows at a time from registers.
template <class P>
class PagedRegisterProducts {
 public:
  using Keys = typename P::Keys;
  using Storage = typename Keys::Storage;
  using Query = typename P::Query;

  static std::int64_t floats(std::int64_t rows, std::int64_t d) { return Memory(rows, d).end; }
  static std::int64_t output_rows(std::int64_t rows) { return rows; }

  PagedRegisterProducts(const AttentionArgs& args, const PagedHeads&, std::int64_t rows, float* memory)
      : rows_(rows),
        d_(args.d),
        scale_(args.scale),
        at_(rows, args.d),
        memory_(memory),
        queries_(reinterpret_cast<const Query**>(memory)) {}

  template <class RowOf>
  [[gnu::always_inline]] void pack_queries(Element type, RowOf row_of) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const void* row = row_of(r);
      if constexpr (P::kCopiesQueries) {
        float* to = memory_ + at_.queries + r * padded(d_);
        for_vectors(d_,
                    [&](std::int64_t i, auto part) { F32::put(to + i, get_any(type, row, i, part), part); });
        queries_[r] = to;
      } else {
        queries_[r] = static_cast<const Query*>(row);
      }
    }
  }
  [[gnu::always_inline]] void scores(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next,
                                     float* scores) {
    if constexpr (P::kCopiesQueries)
      if (rows_ > kPagedRows)
        return scores_of_floats(queries_, copied(keys, next), rows_, d_, scale_, scores);
    scores_of_rows<P>(queries_, keys, &next, rows_, d_, scale_, scores);
  }
  [[gnu::always_inline]] void add_values(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next,
                                         const float* weights, const float* alpha, float* output) {
    if constexpr (P::kCopiesQueries)
      if (rows_ > kPagedRows) return add_floats(copies_, weights, alpha, rows_, d_, output);
    add_rows<Keys>(keys, &next, weights, alpha, rows_, d_, output);
  }
  STOA_INLINE F power(F x) { return exp(x); }

 private:
  struct Memory {
    std::int64_t queries, keys, values, end;
    Memory(std::int64_t rows, std::int64_t d) {
      queries = round_up(rows * static_cast<std::int64_t>(sizeof(const Query*) / sizeof(float)), kLanes);
      keys = queries + (P::kCopiesQueries ? rows * padded(d) : 0);
      const std::int64_t copied = P::kCopiesQueries && rows > kPagedRows ? kBlock * padded(d) : 0;
      values = keys + copied;
      end = values + copied;
    }
  };

  // The block's keys and values as floats: for many rows they are converted once, with the same result.
  [[gnu::always_inline]] const PagedKeys<float>& copied(const PagedKeys<Storage>& keys,
                                                        const PagedKeys<Storage>& next) {
    const std::int64_t dp = padded(d_);
    float *k = memory_ + at_.keys, *v = memory_ + at_.values;
    for (std::int64_t j = 0; j < keys.count; ++j, k += dp, v += dp) {
      next.fetch_keys(j, j + 1);
      next.fetch_values(j, j + 1);
      for_vectors(d_, [&](std::int64_t i, auto part) {
        F32::put(k + i, Keys::get(keys.k[j], i, d_, part), part);
        F32::put(v + i, Keys::get(keys.v[j], i, d_, part), part);
      });
      copies_.k[j] = k;
      copies_.v[j] = v;
    }
    copies_.count = keys.count;
    return copies_;
  }

  std::int64_t rows_, d_;
  float scale_;
  Memory at_;
  float* memory_;
  const Query** queries_;    // rows of queries
  PagedKeys<float> copies_;  // of keys and values, where there are many rows
};

template <class Products>
void paged_task(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                float* memory) {
  using Storage = typename Products::Storage;
  const std::int64_t d = args.d;
  const PagedRows row_of{args, segment, heads};
  const std::int64_t rows = row_of.count();
  const PagedMemory<Products> at(rows, d);
  float *scores = memory + at.scores, *alpha = memory + at.alpha;
  const PagedSoftmax total(memory + at.total, rows, d, rows),
      span(memory + at.span, rows, d, Products::output_rows(rows));
  total.clear();
  span.clear();
  Products products(args, heads, rows, memory + at.products);
  products.pack_queries(args.q.type,
                        [&](std::int64_t row) -> const void* { return row_of.place(args.q, row); });
  const Visible see{args, segment};
  const SpansOfTask spans(see, heads);
  for_key_blocks<Storage>(
      args, heads, spans.first_key, spans.end_key, see.last(heads.end - 1),
      [&](std::int64_t k0, const PagedKeys<Storage>& keys,
          const PagedKeys<Storage>& next) __attribute__((always_inline)) {
        products.scores(keys, next, scores);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t query = row_of.query(r), first = see.first(query) - k0,
                             end = see.last(query) - k0;
          paged_weights(
              args, row_of.head(r), see.at(query), k0, first > 0 ? first : 0,
              end < keys.count ? end : keys.count, scores + r * kBlock, span.sum + r * kLanes, span.top + r,
              alpha + r, [](F x) __attribute__((always_inline)) { return Products::power(x); });
        }
        products.add_values(keys, next, scores, alpha, span.output);
        const std::int64_t after = k0 + kBlock;
        if (after % kKeySpan != 0 && after < spans.end_key) return;
        if (heads.states) {
          span.copy_to(row_of.state(k0 / kKeySpan));
        } else {
          total.add(span);
          if (after < spans.end_key) span.clear();
        }
      });
  if (!heads.states) row_of.write(total);
}

void merge(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
           void* memory) {
  const PagedRows row_of{args, segment, heads};
  const PagedSoftmax total(static_cast<float*>(memory), row_of.count(), args.d, row_of.count());
  total.clear();
  const SpansOfTask spans({args, segment}, heads);
  for (std::int64_t key = spans.first_key; key < spans.end_key; key = (key / kKeySpan + 1) * kKeySpan)
    total.add(row_of.state(key / kKeySpan));
  row_of.write(total);
}

template <class T>
struct PagedKind {
  using Type = T;
};
// body(PagedKind of the products for a type of queries and a form of keys, fp32 with fp32 alone)
template <class Body>
STOA_INLINE void with_products(Element type, CacheForm cache, Body body) {
  switch (cache) {
    case CacheForm::kF32:
      return body(PagedKind<PagedRegisterProducts<PagedFloats<F32>>>{});
    case CacheForm::kBF16:
#if STOA_ISA_LEVEL >= 3
      if (type == Element::kBF16) return body(PagedKind<PagedRegisterProducts<PagedPairs>>{});
#else
      if (type == Element::kBF16) return body(PagedKind<PagedRegisterProducts<PagedFloats<BF16>>>{});
#endif
      return body(PagedKind<PagedRegisterProducts<PagedMixed<CachedFloats<BF16>>>>{});
    case CacheForm::kF16:
      if (type == Element::kF16) return body(PagedKind<PagedRegisterProducts<PagedFloats<F16>>>{});
      return body(PagedKind<PagedRegisterProducts<PagedMixed<CachedFloats<F16>>>>{});
    case CacheForm::kCodes:
      return body(PagedKind<PagedRegisterProducts<PagedMixed<CachedCodes>>>{});
  }
}

template <class Products>
std::size_t bytes_of(std::int64_t rows, std::int64_t d) {
  return static_cast<std::size_t>(PagedMemory<Products>(rows, d).end) * sizeof(float);
}

void forward(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
             void* memory) {
  with_products(args.q.type, heads.cache, [&](auto kind) {
    paged_task<typename decltype(kind)::Type>(args, segment, heads, static_cast<float*>(memory));
  });
}

std::size_t bytes(Element type, CacheForm cache, std::int64_t rows, std::int64_t d) {
  std::size_t out = 0;
  with_products(type, cache, [&](auto kind) { out = bytes_of<typename decltype(kind)::Type>(rows, d); });
  return out;
}

#if STOA_ISA_LEVEL >= 3
// The same on tiles.
constexpr std::int64_t kLeastPanelRows = 17;

// body(PagedKind of a form of keys, whether they are bf16)
template <class Body>
STOA_INLINE void with_tiles(CacheForm cache, Body body) {
  switch (cache) {
    case CacheForm::kF32:  // goes with queries in fp32
    case CacheForm::kBF16:
      return body(PagedKind<CachedFloats<BF16>>{}, Constant<true>{});
    case CacheForm::kF16:
      return body(PagedKind<CachedFloats<F16>>{}, Constant<false>{});
    case CacheForm::kCodes:
      return body(PagedKind<CachedCodes>{}, Constant<false>{});
  }
}

void forward_on_tiles(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                      void* memory) {
  if (!fits_tiles(args.q.type, args.d)) return forward(args, segment, heads, memory);
  enter_tiles();
  // Few rows would fill few lanes of a panel. A cap or a bias is applied row by row.
  const bool panels = PagedRows{args, segment, heads}.count() >= kLeastPanelRows && !has_block_scores(args);
  with_tiles(heads.cache, [&](auto kind, auto pairs) {
    using Keys = typename decltype(kind)::Type;
    if (panels)
      PagedTilePanels<Keys, pairs.value>(args, segment, heads, static_cast<float*>(memory)).run();
    else
      paged_task<PagedTileProducts<Keys, pairs.value>>(args, segment, heads, static_cast<float*>(memory));
  });
  leave_tiles();
}

std::size_t bytes_on_tiles(Element type, CacheForm cache, std::int64_t rows, std::int64_t d) {
  if (!fits_tiles(type, d)) return bytes(type, cache, rows, d);
  std::size_t out = 0;
  with_tiles(cache, [&](auto kind, auto pairs) {
    using Keys = typename decltype(kind)::Type;
    out = bytes_of<PagedTileProducts<Keys, pairs.value>>(rows, d);
    const auto panels =
        static_cast<std::size_t>(PagedTilePanels<Keys, pairs.value>::floats(rows, d)) * sizeof(float);
    out = out < panels ? panels : out;
  });
  return out;
}
#endif

}  // namespace

#if STOA_ISA_LEVEL >= 3
const AttentionPagedKernels& attention_paged_tile_kernels() {
  static constexpr AttentionPagedKernels kTable{forward_on_tiles, merge, bytes_on_tiles, kPagedTileTaskRows};
  return kTable;
}
#endif

const AttentionPagedKernels& attention_paged_kernels() {
  static constexpr AttentionPagedKernels kTable{forward, merge, bytes, kPagedTaskRows};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
