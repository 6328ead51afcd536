// Products of attention over keys and values in blocks on tiles of AMX, for attention_paged_kernels.cc. Keys
// in bf16 are read where they lie, sixteen to a tile; those of another form are rounded to bf16 first.
// Queries are packed once, values pair by pair. Weights become bf16. attention_paged_panels.h is for many
// rows.
#pragma once

#include "ops/cpu/attention_paged.h"

#if STOA_ISA_LEVEL >= 3
namespace stoa::ops::cpu::STOA_ISA {

// What tiles read of a task. Keys: CachedFloats or CachedCodes; kPairs: they are bf16.
template <class Keys_, bool kPairs>
class PagedTileOperands {
 public:
  using Keys = Keys_;
  using Storage = typename Keys::Storage;
  static constexpr std::int64_t kColumns = 32;  // queries of a panel

  // `queries`: panels of [d / 2][kColumns]; `keys`: [kBlock][d / 2].
  PagedTileOperands(const AttentionArgs& args, const PagedHeads& heads, std::int64_t rows, float* queries,
                    float* keys)
      : rows_(rows),
        d_(args.d),
        whole_tiles_(kPairs && heads.block_rows % 16 == 0 && heads.width % 2 == 0),
        key_words_(heads.width / 2),
        queries_(queries),
        keys_(keys) {}

  template <class RowOf>
  [[gnu::always_inline]] void pack_queries(Element, RowOf row_of) {
    for (std::int64_t r = 0; r < round_up(rows_, 16); r += 16)
      for (std::int64_t i = 0; i < words(); i += 16) {
        F tile[kLanes];
        for (int j = 0; j < kLanes; ++j)
          tile[j] =
              r + j < rows_ ? Pairs::words(static_cast<const std::uint16_t*>(row_of(r + j)), i, d_) : F{};
        transpose(tile);
        float* to = queries(r / kColumns) + r % kColumns;
        for (int j = 0; j < kLanes; ++j) store(to + (i + j) * kColumns, tile[j]);
      }
  }

 protected:
  std::int64_t words() const { return d_ / 2; }
  float* queries(std::int64_t panel) const { return queries_ + panel * words() * kColumns; }

  // Makes the keys of a block ready for key_tile().
  void prepare(const PagedKeys<Storage>& keys) const {
    if (!whole_tiles_) copy_keys(keys);
  }
  // Sixteen keys as words, key_row() apart.
  const float* key_tile(const PagedKeys<Storage>& keys, std::int64_t j) const {
    return whole_tiles_ ? reinterpret_cast<const float*>(keys.k[j]) : keys_ + j * words();
  }
  std::int64_t key_row() const { return whole_tiles_ ? key_words_ : words(); }

  // Columns i .. i + kLanes of the values of two keys, as words; the second may be null.
  [[gnu::always_inline]] F value_words(const Storage* low, const Storage* high, std::int64_t i) const {
    U word = __builtin_convertvector(halves(low, i), U);
    if (high) word |= __builtin_convertvector(halves(high, i), U) << 16;
    return reinterpret_cast<F>(word);
  }

  std::int64_t rows_, d_;

 private:
  // Columns i .. i + kLanes of a row.
  [[gnu::always_inline]] H halves(const Storage* row, std::int64_t i) const {
    if constexpr (kPairs)
      return load_half(row + i);
    else
      return to_bf16(Keys::get(row, i, d_, Full{}));
  }
  // For keys that are not rows of whole tiles.
  void copy_keys(const PagedKeys<Storage>& keys) const {
    for (std::int64_t j = 0; j < round_up(keys.count, 16); ++j) {
      float* to = keys_ + j * words();
      if (j < keys.count)
        for (std::int64_t i = 0; i < d_; i += kLanes) store_half(to + i / 2, halves(keys.k[j], i));
      else
        std::memset(to, 0, static_cast<std::size_t>(words()) * sizeof(float));
    }
  }

  bool whole_tiles_;  // sixteen keys from a multiple of 16 are rows at one distance
  std::int64_t key_words_;
  float *queries_, *keys_;
};

// Products of a task of few rows: scores are turned, so that a row's keys are in the lanes.
template <class Keys, bool kPairs>
class PagedTileProducts : public PagedTileOperands<Keys, kPairs> {
  using Operands = PagedTileOperands<Keys, kPairs>;
  using Operands::d_, Operands::kColumns, Operands::key_row, Operands::key_tile, Operands::prepare,
      Operands::queries, Operands::rows_, Operands::value_words, Operands::words;

 public:
  using Storage = typename Keys::Storage;

  // Memory in floats, and the rows of output that tiles write.
  static std::int64_t floats(std::int64_t rows, std::int64_t d) { return Memory(rows, d).end; }
  static std::int64_t output_rows(std::int64_t rows) { return round_up(rows, 16); }

  PagedTileProducts(const AttentionArgs& args, const PagedHeads& heads, std::int64_t rows, float* memory)
      : Operands(args, heads, rows, memory + Memory(rows, args.d).queries,
                 memory + Memory(rows, args.d).keys),
        scale_(args.scale),
        at_(rows, args.d),
        memory_(memory) {
    std::memset(weights(), 0, static_cast<std::size_t>(round_up(rows, 16) * kWeightWords) * sizeof(float));
  }

  // scores[r][j] = scale q[r] . k[j]; of keys beyond the last they are any values.
  void scores(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next, float* scores) {
    prepare(keys);
    for (std::int64_t r = 0; r < rows_; r += kColumns) {
      const bool across = r + 16 < rows_;
      for (std::int64_t j = 0; j < keys.count; j += 16) {
        const float *from = key_tile(keys, j), *query = queries(r / kColumns);
        across ? amx_product<false, true>(words(), from, key_row(), query, kColumns, products(j), kColumns,
                                          false)
               : amx_product<false, false>(words(), from, key_row(), query, kColumns, products(j), kColumns,
                                           false);
        if (r == 0) next.fetch_keys(j, j + 16);
        turn(r, j, scores);
        if (across) turn(r + 16, j, scores);
      }
    }
  }

  // output[r] = output[r] * alpha[r] + sum over keys of weight * value
  void add_values(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next, const float* row_weights,
                  const float* alpha, float* output) {
    const std::int64_t dp = padded(d_);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* from = row_weights + r * kBlock;
      for (std::int64_t i = 0; i < kWeightWords; i += kLanes)
        store(weights() + r * kWeightWords + i,
              query_words<Pairs>(load(from + 2 * i), load(from + 2 * i + kLanes)));
      if (alpha[r] == 1) continue;
      for (std::int64_t i = 0; i < dp; i += kLanes)
        store(output + r * dp + i, load(output + r * dp + i) * alpha[r]);
    }
    float* const values = memory_ + at_.values;
    for (std::int64_t j = 0; j < keys.count; j += 2) {
      next.fetch_values(j, j + 2);
      const Storage* const high = j + 1 < keys.count ? keys.v[j + 1] : nullptr;
      for (std::int64_t i = 0; i < d_; i += kLanes)
        store(values + j / 2 * dp + i, value_words(keys.v[j], high, i));
    }
    const std::int64_t packed = (keys.count + 1) / 2;
    std::memset(values + packed * dp, 0,
                static_cast<std::size_t>((kWeightWords - packed) * dp) * sizeof(float));
    amx_block_product(rows_, dp / kLanes, kWeightWords, weights(), kWeightWords, values, dp, output, dp,
                      Into::kAdd, nullptr);
  }

  STOA_INLINE F power(F x) { return Pairs::power(x * kLog2E); }

 private:
  static constexpr std::int64_t kWeightWords = kBlock / 2;

  struct Memory {
    std::int64_t queries, products, weights, values, keys, end;
    Memory(std::int64_t rows, std::int64_t d) {
      queries = 0;                                              // [panels][d / 2][kColumns]
      products = queries + round_up(rows, kColumns) * (d / 2);  // [kBlock][kColumns]
      weights = products + kBlock * kColumns;                   // [rows][kWeightWords]
      values = weights + round_up(rows, 16) * kWeightWords;     // [kWeightWords][d]
      keys = values + kWeightWords * d;                         // [kBlock][d / 2]
      end = keys + kBlock * (d / 2);
    }
  };

  float* products(std::int64_t key) const { return memory_ + at_.products + key * kColumns; }
  float* weights() const { return memory_ + at_.weights; }

  // Scores of sixteen rows from `row` and sixteen keys from `key`, from their products.
  void turn(std::int64_t row, std::int64_t key, float* scores) const {
    F tile[kLanes];
    for (int j = 0; j < kLanes; ++j) tile[j] = load(products(key + j) + row % kColumns) * scale_;
    transpose(tile);
    for (int j = 0; j < kLanes && row + j < rows_; ++j) store(scores + (row + j) * kBlock + key, tile[j]);
  }

  float scale_;
  Memory at_;
  float* memory_;
};

}  // namespace stoa::ops::cpu::STOA_ISA
#endif
