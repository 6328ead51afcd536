#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/quantised_linear.h"
#include "ops/cuda/kernels/quantised_parts.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

// --- tokens in codes ---

constexpr int kEncodeLanes =
    kScaledColumns / 4;  // of neighbours that have one scale; a lane has four of them

STOA_DEVICE std::uint32_t word_of(const int (&bytes)[4]) {
  std::uint32_t word = 0;
  STOA_UNROLL
  for (int i = 0; i < 4; ++i) word |= (static_cast<std::uint32_t>(bytes[i]) & 255u) << (8 * i);
  return word;
}

// Half a warp encodes the columns of one scale. Block (x, y): token x, columns of 16 scales.
template <class T, bool kMany>
struct EncodeKernel {
  using Args = EncodeArgs;
  static constexpr const char* kName = "quantised linear: codes of tokens";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const TokenCodes& to = a.to;
    const int lane = t.index() % kEncodeLanes, vector = lane % 8;
    const std::int64_t token = t.block_x(),
                       block = t.block_y() * (kThreads / kEncodeLanes) + t.index() / kEncodeLanes,
                       unit = block * kScaledUnits + lane / 8;
    const bool here = unit < to.units && token < to.tokens;
    float x[4] = {};
    std::uint32_t most = 0;  // magnitudes as bits: what is not a number is the largest
    if (here) {
      const T* from = static_cast<const T*>(a.x) + token * a.stride + unit * kUnitColumns + 4 * vector;
      STOA_UNROLL
      for (int i = 0; i < 4; ++i) {
        x[i] = widen(from[i]);
        const std::uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
      }
    }
    const float largest = float_of(warp_reduce<Max>(t, most, kEncodeLanes));
    const float inverse = largest > kLeastRounded ? kCoarseCode / largest : 0.0f;
    int coarse[4], fine[4], sum = 0;
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float exact = rounded_product(x[i], inverse);
      coarse[i] = nearest_integer(exact);
      fine[i] = nearest_integer((exact - static_cast<float>(coarse[i])) * kFineCodes);
      sum += coarse[i] * kFineCodes + fine[i];
    }
    const int half = warp_reduce<Add>(t, sum, 4), whole = half + t.shuffle_xor(half, 4);
    if (unit >= to.units) return;
    if (lane == 0) to.scales[of_eight(token, block, blocks_of(to))] = largest / (kCoarseCode * kFineCodes);
    if (vector == 0) to.sums[of_eight(token, unit, to.units)] = whole;
    if (vector % 4 == 0) to.half_sums[of_eight(token, unit * 2 + vector / 4, 2 * to.units)] = half;
    if (!here) return;
    if constexpr (kMany) {
      std::uint32_t pairs[2];
      STOA_UNROLL
      for (int i = 0; i < 2; ++i)
        pairs[i] = narrow_pair<f16>(static_cast<float>(coarse[2 * i] * kFineCodes + fine[2 * i]),
                                    static_cast<float>(coarse[2 * i + 1] * kFineCodes + fine[2 * i + 1]));
      store8(static_cast<f16*>(to.codes) + (token * to.units + unit) * kUnitColumns + 4 * vector, pairs[0],
             pairs[1]);
    } else {
      std::uint32_t* words = static_cast<std::uint32_t*>(to.codes) +
                             ((token * to.units + unit) * 4 + vector % 4) * 4 + vector / 4;
      words[0] = word_of(coarse);
      words[2] = word_of(fine);
    }
  }
};

// --- few tokens ---

// Block (x, y) has 8 kTiles tokens from 8 kTiles x on and the 16 rows of group y, its warps a segment of
// columns each. An operand of the matrix units is a unit of the group as it stands in memory: lane (g, v), g
// = lane / 4, has rows 2 g and 2 g + 1 in the places of rows g and g + 8, and there columns 4 v … and 16 + 4
// v …. `kEach`: tokens of a lane that can be there, of two.
template <WeightFormat kFormat, int kTiles, int kEach>
struct FewTokensKernel {
  using Args = QuantisedProductArgs;
  using Traits = WeightTraits<kFormat>;
  static constexpr const char* kName = "quantised linear of few tokens";
  // More than there are, so that registers are left for three blocks.
  static constexpr int kThreads = (kTiles == 1 ? 3 : 2) * 32 * kMostSegments;

  // Units whose codes are on their way at the same time.
  static constexpr bool kLarge = Traits::kLowBits == 8 || (Traits::kHighBits > 0 && Traits::kBlockUnits > 1);
  static constexpr int kAtOnce = kLarge ? kSegmentUnits / 2 : kSegmentUnits;  // what registers hold

  // Sums of tokens 8 tile + 2 v and the next.
  using Sums = float[kTiles][4];

  // What a lane reads of tokens, from one unit on: codes of token 8 tile + g (of the last one, if there is no
  // such token: what comes of it is not stored), sums of tokens 2 v and 2 v + 1, the same of further tiles
  // `units` times so far behind.
  struct Lane {
    int row, vector;  // g, v
    const std::uint32_t* codes[kTiles];
    const std::int32_t *sums, *half_sums;
    const float* scales;
    std::int64_t units, blocks;

    STOA_DEVICE Lane(const Thread& t, const TokenCodes& x, std::int64_t first, std::int64_t unit)
        : row(t.lane() / 4), vector(t.lane() % 4), units(x.units), blocks(blocks_of(x)) {
      STOA_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        const std::int64_t token = first + 8 * tile + row, last = x.tokens - 1;
        codes[tile] = static_cast<const std::uint32_t*>(x.codes) +
                      (((token < last ? token : last) * units + unit) * 4 + vector) * 4;
      }
      const std::int64_t place = first + 2 * vector;
      sums = x.sums + of_eight(place, unit, units);
      half_sums = x.half_sums + of_eight(place, 2 * unit, 2 * units);
      scales = x.scales + of_eight(place, unit / kScaledUnits, blocks);
    }
    STOA_DEVICE void advance(int by) {
      STOA_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) codes[tile] += 16 * by;
      sums += 8 * by, half_sums += 16 * by, scales += 8 * (by / kScaledUnits);
    }
  };

  // Unit `u` from where the lane stands.
  STOA_DEVICE static void add_unit(const Thread& t, const Lane& l, int u, const std::uint32_t (&rows)[4],
                                   const float (&scales)[2][2], const float (&minima)[2], Sums& sums) {
    STOA_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const Bytes16 codes = load16(l.codes[tile] + 16 * u);
      std::uint32_t code_sums[2] = {};
      if constexpr (Traits::kParts == 1 && (Traits::kZero != 0 || Traits::kMinimum))
        load8(l.sums + 8 * (tile * l.units + u), code_sums);
      STOA_UNROLL
      for (int part = 0; part < Traits::kParts; ++part) {
        std::int32_t coarse[4] = {}, fine[4] = {};
        if constexpr (Traits::kParts == 1) {
          t.multiply_codes(rows, codes.words[0], codes.words[1], coarse);
          t.multiply_codes(rows, codes.words[2], codes.words[3], fine);
        } else {
          load8(l.half_sums + 8 * (2 * (tile * l.units + u) + part), code_sums);
          t.multiply_codes(rows[2 * part], rows[2 * part + 1], codes.words[part], coarse);
          t.multiply_codes(rows[2 * part], rows[2 * part + 1], codes.words[2 + part], fine);
        }
        STOA_UNROLL
        for (int e = 0; e < 4; ++e) {
          if (e % 2 >= kEach) continue;
          const std::int32_t whole =
              coarse[e] * kFineCodes + fine[e] - Traits::kZero * static_cast<std::int32_t>(code_sums[e % 2]);
          sums[tile][e] = fmaf(static_cast<float>(whole), scales[part][e / 2], sums[tile][e]);
        }
      }
      if constexpr (Traits::kMinimum) {
        STOA_UNROLL
        for (int e = 0; e < 4; ++e) {
          if (e % 2 >= kEach) continue;
          const auto code_sum = static_cast<float>(static_cast<std::int32_t>(code_sums[e % 2]));
          sums[tile][e] = fmaf(minima[e / 2], code_sum, sums[tile][e]);
        }
      }
    }
  }

  // Units [unit, unit + kUnits): what they need of the group is asked for at once.
  template <int kUnits>
  STOA_DEVICE static void add_units(const Thread& t, const WeightGroup<kFormat>& group, std::int64_t unit,
                                    Lane& l, Sums& total) {
    RowCodes<kFormat, 2> codes[kUnits];
    PairScales<kFormat, kUnits> pair;
    STOA_UNROLL
    for (int u = 0; u < kUnits; ++u) codes[u].load(group, unit + u, l.vector, 2 * l.row);
    pair.load(group, unit, l.row);
    STOA_UNROLL
    for (int first = 0; first < kUnits; first += kScaledUnits) {
      Sums sums = {};
      STOA_UNROLL
      for (int u = first; u < first + kScaledUnits && u < kUnits; ++u) {
        std::uint32_t even[2], odd[2];
        codes[u].split(0, l.vector, even);
        codes[u].split(1, l.vector, odd);
        const std::uint32_t rows[4] = {even[0], odd[0], even[1], odd[1]};
        float scales[2][2] = {}, minima[2] = {};
        STOA_UNROLL
        for (int r = 0; r < 2; ++r) {
          STOA_UNROLL
          for (int part = 0; part < Traits::kParts; ++part) scales[part][r] = pair.scale(r, u, part);
          if constexpr (Traits::kMinimum) minima[r] = pair.minimum(r, u);
        }
        add_unit(t, l, u, rows, scales, minima, sums);
      }
      STOA_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        std::uint32_t of[2];
        load8(l.scales + 8 * (tile * l.blocks + first / kScaledUnits), of);
        STOA_UNROLL
        for (int e = 0; e < 4; ++e)
          if (e % 2 < kEach) total[tile][e] = fmaf(sums[tile][e], float_of(of[e % 2]), total[tile][e]);
      }
    }
    l.advance(kUnits);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const TokenCodes& x = a.x;
    const PartPlace at(a, t.block_y(), 1);
    const WeightPart& part = a.part[at.part];
    const WeightGroup<kFormat> group(part.groups + at.first * a.group_bytes, x.units);
    const std::int64_t tokens = t.block_x() * 8 * kTiles;
    std::int64_t unit = t.warp() * a.segment * kSegmentUnits;
    const std::int64_t behind = unit + a.segment * kSegmentUnits, end = behind < x.units ? behind : x.units;
    Lane l(t, x, tokens, unit);
    Sums total = {};
    for (; unit + kAtOnce <= end; unit += kAtOnce) add_units<kAtOnce>(t, group, unit, l, total);
    if constexpr (Traits::kBlockUnits == 1) {
      for (; unit + kScaledUnits <= end; unit += kScaledUnits)
        add_units<kScaledUnits>(t, group, unit, l, total);
      if (unit < end) add_units<1>(t, group, unit, l, total);
    }
    float* const shared = t.shared<float>();
    STOA_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      STOA_UNROLL
      for (int e = 0; e < 4; ++e)
        shared[((t.warp() * kTiles + tile) * 4 + e) * 32 + t.lane()] = total[tile][e];
    }
    t.sync();
    for (int n = t.index(); n < kTiles * 8 * kGroupRows; n += t.count()) {
      const int row = n % kGroupRows, of = n / kGroupRows, e = row % 2 * 2 + of % 2,
                lane = row / 2 * 4 + of % 8 / 2;
      const std::int64_t token = tokens + of, in_part = at.first * kGroupRows + row;
      if (token >= x.tokens || in_part >= part.rows) continue;
      const float* sums = shared + (of / 8 * 4 + e) * 32 + lane;
      float sum = sums[0];
      for (int w = 1; w < t.warps(); ++w) sum += sums[w * kTiles * 128];
      store_sum(a, token, part.row + in_part, sum);
    }
  }
};

template <WeightFormat kFormat, int kTiles, int kEach>
void launch_few(const QuantisedProductArgs& a, void* stream) {
  const int segments = static_cast<int>(ceil_div(ceil_div(a.x.units, kSegmentUnits), a.segment));
  launch<FewTokensKernel<kFormat, kTiles, kEach>>(
      {.x = ceil_div(a.x.tokens, std::int64_t{8 * kTiles}),
       .y = tiles_of(a, 1),
       .threads = 32 * segments,
       .shared = static_cast<std::size_t>(segments) * kTiles * 128 * sizeof(float)},
      stream, a);
}

// --- rows ---

// A block has a row of y, a thread eight columns at a time.
template <class T, WeightFormat kFormat>
struct QuantisedRowsKernel {
  using Args = QuantisedRowsArgs;
  using Traits = WeightTraits<kFormat>;
  static constexpr const char* kName = "quantised rows";
  static constexpr int kThreads = 256;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    T* const y = static_cast<T*>(a.y) + t.block_x() * a.y_stride;
    const std::int64_t token = a.tokens[t.block_x()], row = token - a.first;
    if (token < 0 || token >= a.all_rows)
      for (std::int64_t i = t.index(); i < a.units * kUnitColumns; i += t.count()) narrow(0.0f, y[i]);
    if (row < 0 || row >= a.rows) return;
    const WeightGroup<kFormat> group(a.groups + row / kGroupRows * a.group_bytes, a.units);
    const int r = static_cast<int>(row % kGroupRows);
    for (std::int64_t n = t.index(); n < a.units * 4; n += t.count()) {
      const std::int64_t unit = n / 4;
      const int vector = static_cast<int>(n % 4);
      RowCodes<kFormat, 1> codes;
      codes.load(group, unit, vector, r);
      std::uint32_t words[2];
      codes.split(0, vector, words);
      PairScales<kFormat, 1> pair;
      pair.load(group, unit, r / 2);
      float minimum = 0;
      if constexpr (Traits::kMinimum) minimum = pair.minimum(r % 2, 0);
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float scale = pair.scale(r % 2, 0, Traits::kParts == 2 ? half : 0);
        T* const to = y + unit * kUnitColumns + 16 * half + 4 * vector;
        STOA_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int code = static_cast<int>(words[half] >> (8 * i) & 255u) - Traits::kZero;
          narrow(fmaf(scale, static_cast<float>(code), minimum), to[i]);
        }
      }
    }
  }
};

}  // namespace

// Never less for more tokens, whatever kernel takes them.
std::int64_t padded_tokens(std::int64_t tokens) {
  if (tokens > kPassTokens) return ceil_div(tokens, kTileTokens) * kTileTokens;
  return tokens <= 8 ? 8 : tokens <= 16 ? 16 : kPassTokens;
}

// The kernel of few tokens takes time for every row and pass. The other takes as much for a tile, on every
// multiprocessor at once, as that for kTilePasses passes and rows.
bool has_many(std::int64_t tokens, std::int64_t rows) {
  constexpr std::int64_t kTilePasses = 32768, kMultiprocessors = 132;
  const std::int64_t tiles = ceil_div(tokens, kTileTokens) * ceil_div(rows, kTileRows);
  return ceil_div(tokens, kPassTokens) * rows > ceil_div(tiles, kMultiprocessors) * kTilePasses;
}

void launch_encode_tokens(const EncodeArgs& a, void* stream) {
  const Grid grid{.x = a.to.padded,
                  .y = ceil_div(a.to.units, std::int64_t{kScaledUnits} * 256 / kEncodeLanes)};
  with_fast_type(a.type, [&](auto type) {
    using T = decltype(type);
    if (a.to.many)
      launch<EncodeKernel<T, true>>(grid, stream, a);
    else
      launch<EncodeKernel<T, false>>(grid, stream, a);
  });
}

void launch_quantised_product(const QuantisedProductArgs& a, void* stream) {
  if (a.x.many) return launch_quantised_tiles(a, stream);
  dispatch_format(a.format, [&]<WeightFormat kFormat>() {
    if (a.x.tokens == 1)
      launch_few<kFormat, 1, 1>(a, stream);
    else if (a.x.tokens <= 8)
      launch_few<kFormat, 1, 2>(a, stream);
    else if (a.x.tokens <= 16)
      launch_few<kFormat, 2, 2>(a, stream);
    else
      launch_few<kFormat, kPassTokens / 8, 2>(a, stream);
  });
}

void launch_quantised_rows(const QuantisedRowsArgs& a, void* stream) {
  const Grid grid{.x = a.count, .threads = round_up_warps(a.units * 4, 256)};
  with_fast_type(a.y_type, [&](auto type) {
    using T = decltype(type);
    dispatch_format(a.format,
                [&]<WeightFormat kFormat>() { launch<QuantisedRowsKernel<T, kFormat>>(grid, stream, a); });
  });
}

}  // namespace stoa::ops::cuda
