// Shared by the attention kernels: words, packing, the register-tiled product, masks and dropout of a block.
#pragma once

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/real_tiles.h"
#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {

constexpr std::int64_t kBlock = 64;
static_assert(kQueryBlock == kBlock && kKeyBlock == kBlock && kBlock % kLanes == 0);
constexpr int kBlockVectors = static_cast<int>(kBlock) / kLanes;
constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504f;

STOA_INLINE std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }
// Head size in memory: whole vectors, zero beyond d.
STOA_INLINE std::int64_t padded(std::int64_t d) { return round_up(d, 16); }

// Interleaves lanes: a0 b0 a1 b1 ... of the lower or the upper halves.
STOA_INLINE F zip_low(F a, F b) {
  I at;
  for (int i = 0; i < kLanes; ++i) at[i] = (i & 1) * kLanes + (i >> 1);
  return __builtin_shuffle(a, b, at);
}
STOA_INLINE F zip_high(F a, F b) {
  I at;
  for (int i = 0; i < kLanes; ++i) at[i] = (i & 1) * kLanes + (i >> 1) + kLanes / 2;
  return __builtin_shuffle(a, b, at);
}
// rows[i] lane j <-> rows[j] lane i, by log2(kLanes) perfect shuffles.
STOA_INLINE void transpose(F (&rows)[kLanes]) {
  F other[kLanes];
#pragma GCC unroll 4
  for (int stage = kLanes; stage > 1; stage /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      other[2 * i] = zip_low(rows[i], rows[i + kLanes / 2]);
      other[2 * i + 1] = zip_high(rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = other[i];
  }
}

// All bits of a word in all lanes.
STOA_INLINE F splat_word(float word) {
  return reinterpret_cast<F>(U{} + __builtin_bit_cast(std::uint32_t, word));
}

#if STOA_ISA_LEVEL >= 3
// Two bf16 per word.
struct Pairs {
  using Type = BF16;
  static constexpr int kPerWord = 2;
  static constexpr bool kTiles = false;
  STOA_INLINE F product(F a, F b, F c) {
    return reinterpret_cast<F>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(c), reinterpret_cast<__m512bh>(a),
                                                reinterpret_cast<__m512bh>(b)));
  }
  // Weights become bf16: base-2 logarithms save a multiplication, and a less accurate exponential suffices.
  static constexpr float kUnit = kLog2E;  // scores and their logarithms are kept in units of 1 / kUnit
  STOA_INLINE F power(F x) { return exp2_roughly(x); }
  // Words of a row: row[2i], row[2i + 1].
  STOA_INLINE F words(const std::uint16_t* row, std::int64_t i, std::int64_t d) {
    const std::int64_t left = d - 2 * i;
    const std::uint32_t mask = left >= 32 ? ~0u : left <= 0 ? 0u : (1u << left) - 1u;
    return reinterpret_cast<F>(_mm512_maskz_loadu_epi16(mask, row + 2 * i));
  }
};

// The same words, with products on AMX tiles. Head sizes are multiples of 32, so that tiles are whole.
struct TilePairs : Pairs {
  static constexpr bool kTiles = true;
};
#endif

// One float per word, whatever the storage.
template <class E>
struct Singles {
  using Type = E;
  static constexpr int kPerWord = 1;
  static constexpr bool kTiles = false;
  STOA_INLINE F product(F a, F b, F c) { return fma(a, b, c); }
  static constexpr float kUnit = 1;
  STOA_INLINE F power(F x) { return exp2(x * kLog2E); }
  STOA_INLINE F words(const typename E::Storage* row, std::int64_t i, std::int64_t d) {
    if (i + kLanes <= d) return E::get(row + i, Full{});
    if (i >= d) return F{};
    return E::get(row + i, First{static_cast<int>(d - i)});
  }
};

// Words are carried in floats: only their bits count.

// out[count][dw]: rows as words along d.
template <class P>
STOA_INLINE void pack_rows(const typename P::Type::Storage* rows, std::int64_t stride, std::int64_t count,
                           std::int64_t d, float* out) {
  const std::int64_t words = padded(d) / P::kPerWord;
  for (std::int64_t r = 0; r < count; ++r)
    for_vectors(words, [&](std::int64_t i, auto part) {
      F32::put(out + r * words + i, P::words(rows + r * stride, i, d), part);
    });
}

// out[ceil(count / kPerWord)][dp]: words along the rows, zero where a pair has no second row.
template <class P>
STOA_INLINE void pack_pairs(const typename P::Type::Storage* rows, std::int64_t stride, std::int64_t count,
                            std::int64_t d, float* out) {
  const std::int64_t dp = padded(d);
  if constexpr (P::kPerWord == 1) {
    pack_rows<P>(rows, stride, count, d, out);
  } else {
    for (std::int64_t r = 0; r < count; r += 2) {
      const auto* low = rows + r * stride;
      const auto* high = r + 1 < count ? low + stride : nullptr;
      float* to = out + r / 2 * dp;
      for (std::int64_t i = 0; i < dp; i += kLanes) {
        U word{};
        if (i < d) {
          const auto left = d - i < kLanes ? static_cast<int>(d - i) : kLanes;
          word = __builtin_convertvector(load_half_first(low + i, left), U);
          if (high) word |= __builtin_convertvector(load_half_first(high + i, left), U) << 16;
        }
        store(to + i, reinterpret_cast<F>(word));
      }
    }
  }
}

// The first operand of a product that sums over rows: element (i, word of two rows) of block_product's `a`.
// Without tiles as pack_pairs has it, else [dp][kBlock / 2], with zeros where there are no rows.
template <class P>
STOA_INLINE std::int64_t across_row(std::int64_t) {
  return P::kTiles ? kBlock / 2 : 1;
}
template <class P>
STOA_INLINE std::int64_t across_word(std::int64_t dp) {
  return P::kTiles ? 1 : dp;
}
template <class P>
STOA_INLINE void pack_across(const typename P::Type::Storage* rows, std::int64_t stride, std::int64_t count,
                             std::int64_t d, float* out) {
  if constexpr (!P::kTiles) {
    pack_pairs<P>(rows, stride, count, d, out);
  } else {
    for (std::int64_t r = 0; r < kBlock; r += 2 * kLanes)
      for (std::int64_t i = 0; i < d; i += kLanes) {
        F tile[kLanes];
        for (int j = 0; j < kLanes; ++j) {
          const std::int64_t low = r + 2 * j;
          U word{};
          if (low < count)
            word = __builtin_convertvector(load_half_first(rows + low * stride + i, kLanes), U);
          if (low + 1 < count)
            word |= __builtin_convertvector(load_half_first(rows + (low + 1) * stride + i, kLanes), U) << 16;
          tile[j] = reinterpret_cast<F>(word);
        }
        transpose(tile);
        for (int j = 0; j < kLanes; ++j) store(out + (i + j) * (kBlock / 2) + r / 2, tile[j]);
      }
  }
}

// out[dw][kBlock]: words along d, rows in the lanes; columns from count to whole vectors are 0. `flip`
// negates.
template <class P>
STOA_INLINE void pack_columns(const typename P::Type::Storage* rows, std::int64_t stride, std::int64_t count,
                              std::int64_t d, bool flip, float* out) {
  const std::int64_t words = padded(d) / P::kPerWord;
  const std::uint32_t sign = !flip ? 0u : P::kPerWord == 2 ? 0x80008000u : 0x80000000u;
  for (std::int64_t r = 0; r < count; r += kLanes)
    for (std::int64_t i = 0; i < words; i += kLanes) {
      F tile[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        tile[j] = r + j < count ? P::words(rows + (r + j) * stride, i, d) : F{};
        tile[j] = reinterpret_cast<F>(reinterpret_cast<U>(tile[j]) ^ sign);
      }
      transpose(tile);
      const std::int64_t left = words - i < kLanes ? words - i : kLanes;
      for (int j = 0; j < left; ++j) store(out + (i + j) * kBlock + r, tile[j]);
    }
}

// rows[r][i] = in[i][r] * factor[r], from [dp][kBlock].
template <class E>
STOA_INLINE void unpack_columns(const float* in, const float* factor, typename E::Storage* rows,
                                std::int64_t stride, std::int64_t count, std::int64_t d) {
  for (std::int64_t r = 0; r < count; r += kLanes)
    for (std::int64_t i = 0; i < d; i += kLanes) {
      F tile[kLanes];
      const F f = load(factor + r);
      for (int j = 0; j < kLanes; ++j) tile[j] = load(in + (i + j) * kBlock + r) * f;
      transpose(tile);
      const std::int64_t left = count - r < kLanes ? count - r : kLanes;
      for (int j = 0; j < left; ++j) {
        auto* to = rows + (r + j) * stride + i;
        if (i + kLanes <= d)
          E::put(to, tile[j], Full{});
        else
          E::put(to, tile[j], First{static_cast<int>(d - i)});
      }
    }
}

enum class Into { kSet, kAdd, kScaleAdd };

// c[m][n] (=, +=, or c * alpha[n] +) sum over k of a[m * a_row + k * a_word] . b[k][n]; n in vectors.
template <class P, int kRows, int kVectors>
STOA_INLINE void tile_product(std::int64_t words, const float* a, std::int64_t a_row, std::int64_t a_word,
                              const float* b, std::int64_t b_row, float* c, std::int64_t c_row, Into into,
                              const float* alpha) {
  F sum[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < words; ++k) {
    F column[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + k * b_row + v * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const F word = splat_word(a[m * a_row + k * a_word]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[m][v] = P::product(word, column[v], sum[m][v]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + m * c_row + v * kLanes;
      if (into == Into::kAdd)
        sum[m][v] += load(to);
      else if (into == Into::kScaleAdd)
        sum[m][v] = fma(load(to), load(alpha + v * kLanes), sum[m][v]);
      store(to, sum[m][v]);
    }
}

constexpr int kTileRows = 4;
constexpr int kTileVectors = kRegisters == 32 ? 4 : 2;

template <class P, int kVectors>
STOA_INLINE void panel_product(std::int64_t rows, std::int64_t words, const float* a, std::int64_t a_row,
                               std::int64_t a_word, const float* b, std::int64_t b_row, float* c,
                               std::int64_t c_row, Into into, const float* alpha) {
  std::int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tile_product<P, kTileRows, kVectors>(words, a + m * a_row, a_row, a_word, b, b_row, c + m * c_row, c_row,
                                         into, alpha);
  for (; m < rows; ++m)
    tile_product<P, 1, kVectors>(words, a + m * a_row, a_row, a_word, b, b_row, c + m * c_row, c_row, into,
                                 alpha);
}

#if STOA_ISA_LEVEL >= 3
// Two by two tiles hold sums, as in gemm_tiles.h. Rows of a and words are read in sixteens: values beyond
// `rows` only affect rows of c beyond them; values beyond `words` are 0 in a and finite in b.
template <bool kDown, bool kAcross>
STOA_INLINE void amx_product(std::int64_t words, const float* a, std::int64_t a_row, const float* b,
                             std::int64_t b_row, float* c, std::int64_t c_row, bool add) {
  RealTiles tiles;
  const std::int64_t a_stride = a_row * 4, b_stride = b_row * 4, c_stride = c_row * 4;
  float* const below = c + 16 * c_row;
  if (add) {
    tiles.load<0>(c, c_stride);
    if constexpr (kAcross) tiles.load<1>(c + 16, c_stride);
    if constexpr (kDown) tiles.load<2>(below, c_stride);
    if constexpr (kDown && kAcross) tiles.load<3>(below + 16, c_stride);
  } else {
    tiles.zero<0>();
    if constexpr (kAcross) tiles.zero<1>();
    if constexpr (kDown) tiles.zero<2>();
    if constexpr (kDown && kAcross) tiles.zero<3>();
  }
  for (std::int64_t k = 0; k < words; k += 16, a += 16, b += 16 * b_row) {
    tiles.load<4>(a, a_stride);
    tiles.load<6>(b, b_stride);
    tiles.multiply_add<0, 4, 6>();
    if constexpr (kAcross) {
      tiles.load<7>(b + 16, b_stride);
      tiles.multiply_add<1, 4, 7>();
    }
    if constexpr (kDown) {
      tiles.load<5>(a + 16 * a_row, a_stride);
      tiles.multiply_add<2, 5, 6>();
      if constexpr (kAcross) tiles.multiply_add<3, 5, 7>();
    }
  }
  tiles.store<0>(c, c_stride);
  if constexpr (kAcross) tiles.store<1>(c + 16, c_stride);
  if constexpr (kDown) tiles.store<2>(below, c_stride);
  if constexpr (kDown && kAcross) tiles.store<3>(below + 16, c_stride);
}

STOA_INLINE void amx_block_product(std::int64_t rows, std::int64_t vectors, std::int64_t words,
                                   const float* a, std::int64_t a_row, const float* b, std::int64_t b_row,
                                   float* c, std::int64_t c_row, Into into, const float* alpha) {
  if (into == Into::kScaleAdd) {
    bool same = true;  // once the maxima no longer change, all factors are 1
    for (std::int64_t i = 0; i < vectors * kLanes; ++i) same &= alpha[i] == 1.0f;
    if (!same)
      for (std::int64_t m = 0; m < rows; ++m)
        for (std::int64_t v = 0; v < vectors; ++v) {
          float* to = c + m * c_row + v * kLanes;
          store(to, load(to) * load(alpha + v * kLanes));
        }
  }
  const bool add = into != Into::kSet;
  for (std::int64_t m = 0; m < rows; m += 32) {
    const float* from = a + m * a_row;
    float* to = c + m * c_row;
    const bool down = m + 16 < rows;
    std::int64_t v = 0;
    for (; v + 2 <= vectors; v += 2)
      down ? amx_product<true, true>(words, from, a_row, b + v * 16, b_row, to + v * 16, c_row, add)
           : amx_product<false, true>(words, from, a_row, b + v * 16, b_row, to + v * 16, c_row, add);
    if (v < vectors)
      down ? amx_product<true, false>(words, from, a_row, b + v * 16, b_row, to + v * 16, c_row, add)
           : amx_product<false, false>(words, from, a_row, b + v * 16, b_row, to + v * 16, c_row, add);
  }
}
#endif

template <class P>
[[gnu::noinline]] void block_product(std::int64_t rows, std::int64_t vectors, std::int64_t words,
                                     const float* a, std::int64_t a_row, std::int64_t a_word, const float* b,
                                     std::int64_t b_row, float* c, std::int64_t c_row, Into into,
                                     const float* alpha = nullptr) {
#if STOA_ISA_LEVEL >= 3
  if constexpr (P::kTiles)
    return amx_block_product(rows, vectors, words, a, a_row, b, b_row, c, c_row, into, alpha);
#endif
  std::int64_t v = 0;
  for (; v + kTileVectors <= vectors; v += kTileVectors)
    panel_product<P, kTileVectors>(rows, words, a, a_row, a_word, b + v * kLanes, b_row, c + v * kLanes,
                                   c_row, into, alpha + v * kLanes);
  for (; v < vectors; ++v)
    panel_product<P, 1>(rows, words, a, a_row, a_word, b + v * kLanes, b_row, c + v * kLanes, c_row, into,
                        alpha + v * kLanes);
}

STOA_INLINE I lane_numbers() {
  I lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane;
}

// Which keys of a segment its queries see. Query i is at key position keys + behind - queries + i.
struct Visible {
  const AttentionArgs& args;
  const AttentionSegment& segment;
  STOA_INLINE std::int64_t clamp(std::int64_t x, std::int64_t high) {
    return x < 0 ? 0 : x > high ? high : x;
  }
  [[gnu::always_inline]] std::int64_t at(std::int64_t query) const {
    return segment.keys + segment.behind - segment.queries + query;
  }
  [[gnu::always_inline]] std::int64_t first(std::int64_t query) const {
    return args.window > 0 ? clamp(at(query) - args.window + 1, segment.keys) : 0;
  }
  [[gnu::always_inline]] std::int64_t last(std::int64_t query) const {  // one past
    return args.causal ? clamp(at(query) + 1, segment.keys) : segment.keys;
  }
};

// What is visible in a block of scores: keys [k0, k0 + keys), queries from q0. Lane bounds relative to k0.
struct BlockMask {
  std::int64_t k0;
  bool partial;  // some score of the block is hidden
  std::int64_t low_shift, high_shift;
  bool windowed, causal;
  [[gnu::always_inline]] BlockMask(const Visible& see, std::int64_t q0, std::int64_t queries,
                                   std::int64_t k0_, std::int64_t keys)
      : k0(k0_), windowed(see.args.window > 0), causal(see.args.causal) {
    low_shift = see.at(q0) - see.args.window + 1 - k0;  // of lane 0: first visible row
    high_shift = see.at(q0) - k0;                       // last visible row
    partial = (causal && high_shift < keys - 1) || (windowed && low_shift + queries - 1 > 0);
  }
  // The mask of row j, for queries in lanes from `column`.
  [[gnu::always_inline]] I row(std::int64_t j, std::int64_t column) const {
    const I lane = lane_numbers() + static_cast<std::int32_t>(column);
    I visible = ~I{};
    // The shifts fit 32 bits: token counts of a segment do.
    if (causal) visible &= lane + static_cast<std::int32_t>(high_shift) >= static_cast<std::int32_t>(j);
    if (windowed) visible &= lane + static_cast<std::int32_t>(low_shift) <= static_cast<std::int32_t>(j);
    return visible;
  }
};

// Dropout factors of a block, row by row in order: a Philox call gives the words of four keys.
struct BlockDropout {
  U words[4];
  U query;
  std::uint32_t head, sample;
  std::int64_t key_position;  // of row 0
  std::int64_t drawn;
  [[gnu::always_inline]] void start(const AttentionArgs& args, const AttentionSegment& segment,
                                    std::int64_t head_index, std::int64_t q_position, std::int64_t k0) {
    head = static_cast<std::uint32_t>(args.first_head + head_index);
    sample = static_cast<std::uint32_t>(segment.sample);
    key_position = segment.position + k0;
    drawn = -1;
    query = reinterpret_cast<U>(lane_numbers()) + static_cast<std::uint32_t>(segment.position + q_position);
  }
  [[gnu::always_inline]] F factor(const AttentionArgs& args, std::int64_t j) {
    const std::int64_t position = key_position + j;
    if (position >> 2 != drawn) {
      drawn = position >> 2;
      words[0] = query;
      words[1] = U{} + static_cast<std::uint32_t>(drawn);
      words[2] = U{} + head;
      words[3] = U{} + sample;
      philox(args.key_lo, args.key_hi, words[0], words[1], words[2], words[3]);
    }
    return dropout_factor(words[position & 3], args.dropout, args.keep_scale);
  }
};

// The row of the bias table for an offset: key position - query position.
STOA_INLINE std::int64_t bias_row(const AttentionArgs& args, std::int64_t offset) {
  const std::int64_t row = offset - args.first_offset;
  return row < 0 ? 0 : row >= args.offsets ? args.offsets - 1 : row;
}

// Turns raw products of a block into scores with a cap and a relative bias, in units of 1 / kUnit.
template <class P>
struct BlockScores {
  float scale, cap, rate;  // rate: of the argument of tanh
  // Row and lane read [kBlock - 1 - row + lane], so that the lanes of a row are adjacent.
  float bias[2 * kBlock];
  float bias_gradient[2 * kBlock];

  // The offset (key position - query position) at an index of `bias`; q_at: position of lane 0.
  static std::int64_t offset(std::int64_t q_at, std::int64_t k0, std::int64_t index) {
    return k0 - q_at + kBlock - 1 - index;
  }
  [[gnu::always_inline]] void start(const AttentionArgs& args, std::int64_t head, std::int64_t q_at,
                                    std::int64_t k0) {
    const float size = args.scale < 0 ? -args.scale : args.scale;
    scale = size * P::kUnit;
    cap = args.softcap * P::kUnit;
    rate = args.softcap != 0 ? size / args.softcap : 0.0f;
    for (std::int64_t i = 0; i < 2 * kBlock; ++i) bias[i] = bias_gradient[i] = 0;
    if (!args.relative_bias) return;
    const float* table = args.relative_bias + head;
    for (std::int64_t i = 0; i < 2 * kBlock - 1; ++i)
      bias[i] = table[bias_row(args, offset(q_at, k0, i)) * args.bias_stride] * P::kUnit;
  }
  // Score from a product in row j, lanes from `first`; `slope` becomes its derivative by the scaled product.
  [[gnu::always_inline]] F score(F product, std::int64_t j, std::int64_t first, F& slope) const {
    const F add = load(bias + kBlock - 1 - j + first);
    if (cap == 0) {
      slope = splat(1.0f);
      return fma(product, splat(scale), add);
    }
    const F t = tanh(product * rate);
    slope = 1.0f - t * t;
    return fma(t, splat(cap), add);
  }
  [[gnu::always_inline]] void add_gradient(F gradient, std::int64_t j, std::int64_t first) {
    float* to = bias_gradient + kBlock - 1 - j + first;
    store(to, load(to) + gradient);
  }
  // Adds the block's sums to the row of `head`.
  void finish(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
              std::int64_t q_at, std::int64_t k0) const {
    float* table = segment.bias_gradient + head * args.offsets;
    for (std::int64_t i = 0; i < 2 * kBlock - 1; ++i)
      table[bias_row(args, offset(q_at, k0, i))] += bias_gradient[i];
  }
};
STOA_INLINE bool has_block_scores(const AttentionArgs& args) {
  return args.softcap != 0 || args.relative_bias != nullptr;
}

// Row by row: scaled products of a query at `q_at` with keys [first, last) become scores.
STOA_INLINE void score_query(const AttentionArgs& args, std::int64_t head, std::int64_t q_at,
                             std::int64_t first, std::int64_t last, float* p) {
  if (args.softcap != 0)
    for_vectors(last - first, [&](std::int64_t i, auto part) {
      F32::put(p + i, tanh(F32::get(p + i, part) / args.softcap) * args.softcap, part);
    });
  if (!args.relative_bias) return;
  const float* table = args.relative_bias + head;
  for (std::int64_t j = first; j < last; ++j)
    p[j - first] += table[bias_row(args, j - q_at) * args.bias_stride];
}

// Asks for a row of a head ahead of its use.
template <class E>
STOA_INLINE void fetch_row(const typename E::Storage* row, std::int64_t d) {
  const auto* p = reinterpret_cast<const char*>(row);
  for (const auto* end = p + d * static_cast<std::int64_t>(sizeof(*row)); p < end; p += 64)
    __builtin_prefetch(p);
}

template <auto kValue>
struct Constant {
  static constexpr auto value = kValue;
};
// How many vectors of running values fit into the registers.
constexpr int kGroup = kRegisters == 32 ? 4 : 2;

// body(first column, number of vectors, partial, dropout, scored), the last four as constants. scored: with
// BlockScores.
template <class Body>
STOA_INLINE void for_vector_groups(std::int64_t vectors, bool partial, bool dropout, bool scored, Body body) {
  const auto with = [&](auto is_partial, auto is_dropout, auto is_scored) {
    std::int64_t v = 0;
    for (; v + kGroup <= vectors; v += kGroup)
      body(v * kLanes, Constant<kGroup>{}, is_partial, is_dropout, is_scored);
    for (; v < vectors; ++v) body(v * kLanes, Constant<1>{}, is_partial, is_dropout, is_scored);
  };
  // A needless mask costs little compared with Philox, tanh or a bias.
  if (scored && dropout)
    with(Constant<true>{}, Constant<true>{}, Constant<true>{});
  else if (scored)
    with(Constant<true>{}, Constant<false>{}, Constant<true>{});
  else if (dropout)
    with(Constant<true>{}, Constant<true>{}, Constant<false>{});
  else if (partial)
    with(Constant<true>{}, Constant<false>{}, Constant<false>{});
  else
    with(Constant<false>{}, Constant<false>{}, Constant<false>{});
}

// Writes rows of probabilities as words along the keys: row j with row j + 1.
template <class P>
STOA_INLINE F key_words(F even, F odd) {
  static_assert(P::kPerWord == 2);
#if STOA_ISA_LEVEL >= 3
  const auto halves = reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(odd), reinterpret_cast<__m512>(even)));
  typedef std::uint16_t Halves __attribute__((vector_size(64)));
  Halves at;
  for (int i = 0; i < 32; ++i) at[i] = static_cast<std::uint16_t>((i & 1) * 16 + (i >> 1));
  return reinterpret_cast<F>(_mm512_permutexvar_epi16(reinterpret_cast<__m512i>(at), halves));
#else
  return even + odd;
#endif
}
// Two neighbouring vectors of one row as words along the queries.
template <class P>
STOA_INLINE F query_words(F low, F high) {
  static_assert(P::kPerWord == 2);
#if STOA_ISA_LEVEL >= 3
  return reinterpret_cast<F>(
      _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low)));
#else
  return low + high;
#endif
}

// Zeroes words [ceil(keys / 2), next multiple of 16) of a block with words along keys: tiles read them.
STOA_INLINE void clear_missing_words(float* words, std::int64_t keys) {
  for (std::int64_t k = (keys + 1) / 2; k % 16 != 0; ++k)
    for (std::int64_t i = 0; i < kBlock; i += kLanes) store(words + k * kBlock + i, F{});
}

#if STOA_ISA_LEVEL >= 3
STOA_INLINE bool fits_tiles(Element type, std::int64_t d) { return type == Element::kBF16 && d % 32 == 0; }
#endif

// body(tag) with the word class for a type.
template <class Body>
STOA_INLINE void with_words(Element type, Body body) {
#if STOA_ISA_LEVEL >= 3
  if (type == Element::kBF16) return body(Pairs{});
#endif
  with_type(type, [&](auto tag) { body(Singles<decltype(tag)>{}); });
}
STOA_INLINE std::int64_t per_word(Element type) {
  return STOA_ISA_LEVEL >= 3 && type == Element::kBF16 ? 2 : 1;
}

}  // namespace stoa::ops::cpu::STOA_ISA
