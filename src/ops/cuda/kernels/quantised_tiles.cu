// Products with quantised matrices for many tokens: tiles of codes in fp16 by matrix units. Codes of tokens
// have 12 bits, those of weights 8: fp16 holds them all, and fp32 the sum of 32 products, below 2^23.
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/product_tile.h"
#include "ops/cuda/kernels/quantised_parts.h"

namespace stoa::ops::cuda {
namespace {

// Four codes less `zero`, as fp16: 1024 + code is fp16 with the code in its low bits.
STOA_DEVICE void to_halves(std::uint32_t codes, int zero, std::uint32_t (&out)[2]) {
  const std::uint32_t base = 0x6400u + static_cast<std::uint32_t>(zero);
  STOA_UNROLL
  for (int i = 0; i < 2; ++i)
    out[i] = subtract_pairs(select_bytes(codes, 0x64646464u, i == 0 ? 0x4140u : 0x4342u), base | base << 16);
}

// Block (x, y): tile x of tokens, tile y of the rows of all parts. As MatrixTile, with kScaledColumns at a
// time, after which sums of products are scaled.
template <WeightFormat kFormat>
struct QuantisedTilesKernel {
  using Args = QuantisedProductArgs;
  using Traits = WeightTraits<kFormat>;
  using Tile = MatrixTile<f16, true, kScaledColumns>;
  static constexpr const char* kName = "quantised linear of many tokens";
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kGroups = Tile::kColumns / kGroupRows, kPairs = Tile::kColumns / 2;
  static constexpr int kPitch = Tile::template kPitch<false>;

  // What is multiplied next, in shared memory.
  struct alignas(16) Place {
    f16 tokens[Tile::kPlace], weights[Tile::kPlace];
    float scales[kScaledUnits * Traits::kParts][Tile::kColumns];
    float minima[Traits::kMinimum ? kScaledUnits : 1][Traits::kMinimum ? Tile::kColumns : 4];
    float code_sums[Traits::kMinimum ? kScaledUnits : 1][Traits::kMinimum ? Tile::kRows : 4];
    float token_scales[Tile::kRows];
  };
  // The same on its way there, in registers; tokens are copied without them. Thread t has 16 bytes of low
  // bits of group t / 32: unit and vector by lane, four rows. Half of the threads have the scales of
  // two rows in one unit, the others those of a token.
  struct Coming {
    RowCodes<kFormat, 4> codes;
    PairScales<kFormat, 1> pair;
    bool has_pair;
    std::int32_t code_sums[kScaledUnits];
    float token_scale;
  };
  struct Weights {
    const std::uint8_t* groups;
    std::int64_t group_bytes, count;  // groups that are there
  };

  STOA_DEVICE static int unit_of(const Thread& t) { return t.lane() / 16; }
  STOA_DEVICE static int vector_of(const Thread& t) { return t.lane() / 4 % 4; }

  STOA_DEVICE static void fetch(const Thread& t, const TokenCodes& x, std::int64_t first_token,
                                const Weights& w, std::int64_t first_unit, Coming& to, Place& place) {
    const std::int64_t columns = x.units * kUnitColumns, column = first_unit * kUnitColumns;
    const f16* const tokens = static_cast<const f16*>(x.codes);
    STOA_UNROLL
    for (int n = 0; n < Tile::kPieces; ++n) {
      const auto at = Tile::template piece<false>(t, n);
      const bool given = first_token + at.i < x.tokens && column + at.q < columns;
      t.copy16(place.tokens + at.i * kPitch + at.q,
               given ? tokens + (first_token + at.i) * columns + column + at.q : tokens, given);
    }
    t.commit_copies();
    const std::int64_t unit = first_unit + unit_of(t);
    to.codes.clear();
    if (t.warp() < w.count && unit < x.units)
      to.codes.load(WeightGroup<kFormat>(w.groups + t.warp() * w.group_bytes, x.units), unit, vector_of(t),
                    t.lane() % 4 * 4);
    if (t.index() < kScaledUnits * kPairs) {
      const int pair = t.index() % kPairs, group = pair / (kGroupRows / 2);
      const std::int64_t of = first_unit + t.index() / kPairs;
      to.has_pair = group < w.count && of < x.units;
      if (to.has_pair)
        to.pair.load(WeightGroup<kFormat>(w.groups + group * w.group_bytes, x.units), of,
                     pair % (kGroupRows / 2));
    } else {
      const std::int64_t token = first_token + t.index() - kScaledUnits * kPairs;
      to.token_scale = x.scales[of_eight(token, first_unit / kScaledUnits, blocks_of(x))];
      if constexpr (Traits::kMinimum) {
        STOA_UNROLL
        for (int u = 0; u < kScaledUnits; ++u)
          to.code_sums[u] = first_unit + u < x.units ? x.sums[of_eight(token, first_unit + u, x.units)] : 0;
      }
    }
  }

  STOA_DEVICE static void put(const Thread& t, const Coming& from, Place& to) {
    f16* const begin = to.weights + (t.warp() * kGroupRows + t.lane() % 4 * 4) * kPitch +
                       unit_of(t) * kUnitColumns + 4 * vector_of(t);
    STOA_UNROLL
    for (int r = 0; r < 4; ++r) {
      std::uint32_t codes[2], halves[2];
      from.codes.split(r, vector_of(t), codes);
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        to_halves(codes[half], Traits::kZero, halves);
        store8(begin + r * kPitch + 16 * half, halves[0], halves[1]);
      }
    }
    if (t.index() < kScaledUnits * kPairs) {
      const int row = t.index() % kPairs * 2, unit = t.index() / kPairs;
      STOA_UNROLL
      for (int r = 0; r < 2; ++r) {
        STOA_UNROLL
        for (int part = 0; part < Traits::kParts; ++part)
          to.scales[unit * Traits::kParts + part][row + r] =
              from.has_pair ? from.pair.scale(r, 0, part) : 0.0f;
        if constexpr (Traits::kMinimum)
          to.minima[unit][row + r] = from.has_pair ? from.pair.minimum(r, 0) : 0.0f;
      }
    } else {
      const int token = t.index() - kScaledUnits * kPairs;
      to.token_scales[token] = from.token_scale;
      if constexpr (Traits::kMinimum) {
        STOA_UNROLL
        for (int u = 0; u < kScaledUnits; ++u) to.code_sums[u][token] = static_cast<float>(from.code_sums[u]);
      }
    }
  }

  // Scales of the rows of weights of a lane: of pieces of 8 columns of sums, two neighbours in each.
  template <int kCount>
  struct LaneScales {
    float of[kCount][4][2];
    STOA_DEVICE LaneScales(const Thread& t, const float (*rows)[Tile::kColumns], int first_column) {
      STOA_UNROLL
      for (int s = 0; s < kCount; ++s) {
        STOA_UNROLL
        for (int j = 0; j < 4; ++j) {
          std::uint32_t two[2];
          load8(&rows[s][first_column + 8 * j + sum_column(t, 0)], two);
          of[s][j][0] = float_of(two[0]), of[s][j][1] = float_of(two[1]);
        }
      }
    }
  };

  // Sums of tokens first_row + 16 i and rows first_column + 8 j on.
  using Sums = float[4][4][4];

  STOA_DEVICE static void multiply(const Thread& t, const Place& place, int first_row, int first_column,
                                   Sums& total) {
    constexpr int kSteps = kScaledColumns / 16, kUnitSteps = kUnitColumns / 16;
    std::uint32_t y[kSteps][2][4];
    STOA_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      STOA_UNROLL
      for (int j = 0; j < 2; ++j)
        load_fragments<false>(t, place.weights, kPitch, first_column + 16 * j, 16 * s, false, y[s][j]);
    }
    const LaneScales<kScaledUnits * Traits::kParts> scales(t, place.scales, first_column);
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      std::uint32_t x[kSteps][4];
      STOA_UNROLL
      for (int s = 0; s < kSteps; ++s)
        load_fragments<false>(t, place.tokens, kPitch, first_row + 16 * i, 16 * s, true, x[s]);
      const int row = first_row + 16 * i + sum_row(t, 0);
      const float token_scales[2] = {place.token_scales[row], place.token_scales[row + 8]};
      STOA_UNROLL
      for (int j = 0; j < 4; ++j) {
        float sum[4] = {};
        STOA_UNROLL
        for (int unit = 0; unit < kScaledUnits; ++unit) {
          STOA_UNROLL
          for (int part = 0; part < Traits::kParts; ++part) {
            float products[4] = {};
            STOA_UNROLL
            for (int k = 0; k < kUnitSteps / Traits::kParts; ++k) {
              const int s = unit * kUnitSteps + part + k;
              t.multiply<f16>(x[s], y[s][j / 2][j % 2 * 2], y[s][j / 2][j % 2 * 2 + 1], products);
            }
            STOA_UNROLL
            for (int n = 0; n < 4; ++n)
              sum[n] = fmaf(products[n], scales.of[unit * Traits::kParts + part][j][n % 2], sum[n]);
          }
          if constexpr (Traits::kMinimum) {
            std::uint32_t minima[2];
            load8(&place.minima[unit][first_column + 8 * j + sum_column(t, 0)], minima);
            STOA_UNROLL
            for (int n = 0; n < 4; ++n)
              sum[n] = fmaf(float_of(minima[n % 2]), place.code_sums[unit][row + n / 2 * 8], sum[n]);
          }
        }
        STOA_UNROLL
        for (int n = 0; n < 4; ++n) total[i][j][n] = fmaf(sum[n], token_scales[n / 2], total[i][j][n]);
      }
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    Place* const places = t.shared<Place>();
    const PartPlace at(a, t.block_y(), kGroups);
    const WeightPart& part = a.part[at.part];
    const Weights w{part.groups + at.first * a.group_bytes, a.group_bytes,
                    (part.rows + kGroupRows - 1) / kGroupRows - at.first};
    const std::int64_t first_token = t.block_x() * Tile::kRows, units = a.x.units;
    const int first_row = t.warp() / 4 * 64, first_column = t.warp() % 4 * 32;
    Sums finished = {}, total = {};  // segments, and what is added to the next
    Coming coming;
    fetch(t, a.x, first_token, w, 0, coming, places[0]);
    put(t, coming, places[0]);
    t.wait_copies<0>();
    t.sync();
    int turn = 0;
    bool first_segment = true;
    std::int64_t left = a.segment * kSegmentUnits;  // units of the segment
    for (std::int64_t unit = 0; unit < units; unit += kScaledUnits) {
      const bool more = unit + kScaledUnits < units;
      if (more) fetch(t, a.x, first_token, w, unit + kScaledUnits, coming, places[1 - turn]);
      multiply(t, places[turn], first_row, first_column, total);
      turn = 1 - turn;
      if (more) put(t, coming, places[turn]);
      t.wait_copies<0>();
      t.sync();
      left -= kScaledUnits;
      if (left > 0 && more) continue;
      left = a.segment * kSegmentUnits;
      each([&](int i, int j, int n) {
        finished[i][j][n] = first_segment ? total[i][j][n] : finished[i][j][n] + total[i][j][n];
        total[i][j][n] = 0;
      });
      first_segment = false;
    }
    each([&](int i, int j, int n) {
      const std::int64_t token = first_token + first_row + 16 * i + sum_row(t, n),
                         row = at.first * kGroupRows + first_column + 8 * j + sum_column(t, n);
      if (token < a.x.tokens && row < part.rows) store_sum(a, token, part.row + row, finished[i][j][n]);
    });
  }

  template <class Body>
  STOA_DEVICE static void each(const Body& body) {
    STOA_UNROLL
    for (int i = 0; i < 4; ++i) {
      STOA_UNROLL
      for (int j = 0; j < 4; ++j) {
        STOA_UNROLL
        for (int n = 0; n < 4; ++n) body(i, j, n);
      }
    }
  }
};

}  // namespace

void launch_quantised_tiles(const QuantisedProductArgs& a, void* stream) {
  dispatch_format(a.format, [&]<WeightFormat kFormat>() {
    using Kernel = QuantisedTilesKernel<kFormat>;
    static_assert(Kernel::Tile::kRows == kTileTokens && Kernel::Tile::kColumns == kTileRows);
    launch<Kernel>({.x = a.x.padded / kTileTokens,
                    .y = tiles_of(a, Kernel::kGroups),
                    .threads = Kernel::kThreads,
                    .shared = 2 * sizeof(typename Kernel::Place)},
                   stream, a);
  });
}

}  // namespace stoa::ops::cuda
