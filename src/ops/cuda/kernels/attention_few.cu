// Attention of a few 16-bit queries over keys in blocks of a cache, on matrix units: bound by the memory that
// keys and values are read from. The sums of a row are those of attention_matrix_forward.cu, in the same
// order.
#include <cmath>
#include <type_traits>

#include "ops/cuda/kernels/attention_cached_tiles.h"
#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_rows.h"
#include "ops/cuda/kernels/attention_softmax.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block owns 16 rows, each a query and a head of one group, and one span of keys, whose softmax it leaves
// as a state; or its output, where no text has two spans. A warp computes the scores of a quarter of the
// keys, then a quarter of the columns of values. It copies what it needs itself, some parts ahead, and so
// waits for other warps only where they exchange largest scores and probabilities.
template <class T, int kMost>
struct FewQueriesKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention of a few queries";
  static constexpr int kThreads = kTileThreads, kResident = kMost <= 128 ? 3 : 2;

  using Tile = HeadTile<T, kMost>;
  static constexpr int kRows = 16, kPitch = Tile::kPitch;
  static constexpr int kWarpKeys = kKeySpan / kTileWarps;  // whose scores a warp computes
  static constexpr int kAtOnce = kForwardKeys<kMost>, kGroups = kKeySpan / kAtOnce,
                       kOwnGroups = kWarpKeys / kAtOnce;
  static constexpr int kColumns = kMost / kTileWarps;  // of values of a warp
  // Parts of keys: 16 of all columns; of values: 64 of the columns of a warp.
  static constexpr int kParts = 4, kPartKeys = kWarpKeys / kParts, kPartValues = kKeySpan / kParts,
                       kPart = kPartKeys * kMost;
  static constexpr int kSlots = kMost <= 64 ? 6 : kMost <= 128 ? 3 : 2;
  static_assert(kPartValues * kColumns == kPart && kPartKeys == 16 && kPartValues % kAtOnce == 0);

  struct Shared {
    alignas(16) T q[kRows * kPitch];
    alignas(128) T parts[kTileWarps][kSlots][kPart];
    alignas(16) std::uint32_t probabilities[kKeySpan / 16][32][4];  // operands of 16 keys, by lane
    float tops[kGroups][kRows];                                     // of the scores of a group of keys
    float sums[kGroups][2][32];                                     // of its probabilities, of a lane
  };
  static_assert(sizeof(Shared) <= kMostTileShared);

  // Rows of kChunks pieces of 16 bytes, in an order in which eight rows of one column, as matrix units take
  // them, are in different banks.
  template <int kChunks>
  STOA_DEVICE static int place(int row, int chunk) {
    constexpr int kMixed = kChunks < 8 ? kChunks : 8;
    return 8 * (row * kChunks + (chunk ^ (row / (8 / kMixed) % kMixed)));
  }

  // A warp's parts.
  struct Source {
    const Thread& t;
    const Args& a;
    const Tile& tile;

    // kCount rows of kChunks pieces from column `first` on become a part. row_of(r): a row of the cache, -1:
    // none, asked for by all lanes; r is a lane's own, its quotient by 32 the same for all.
    template <int kChunks, class RowOf>
    STOA_DEVICE void load(T* to, const HeadRows& from, int first, const RowOf& row_of) const {
      constexpr int kPieces = kPart / 8 / 32, kAhead = kPieces < 8 ? kPieces : 8;
      constexpr CacheForm kSame = std::is_same_v<T, bf16> ? CacheForm::kBF16 : CacheForm::kF16;
      // body(at, row, column, j) for piece j of the lane; row: -1 where there is nothing to load.
      const auto piece = [&](int j, const auto& body) {
        const int r = t.lane() / kChunks + 32 / kChunks * j, chunk = t.lane() % kChunks,
                  column = first + 8 * chunk, row = row_of(r, j / kChunks);
        if (column < 16 * tile.steps) body(to + place<kChunks>(r, chunk), column < a.d ? row : -1, column);
      };
      if (a.cache == kSame) {
        const T* const data = static_cast<const T*>(from.data);
        STOA_UNROLL
        for (int j = 0; j < kPieces; ++j)
          piece(j, [&](T* at, int row, int column) {
            const T* source = row < 0 ? data : data + std::int64_t{row} * a.head_width + column;
            if (a.cache_wide)
              t.copy16(at, source, row >= 0);
            else
              store16(at, row < 0 ? Bytes16{} : first_of_8(source, a.d - column));
          });
        return;
      }
      with_form(a.cache, [&](auto form) {
        constexpr CacheForm kForm = decltype(form)::value;
        if constexpr (kForm != CacheForm::kF32 && kForm != kSame) {
          constexpr int kBytes = kForm == CacheForm::kCodes ? 1 : 2;
          const auto* const data = static_cast<const std::uint8_t*>(from.data);
          const auto source = [&](int row) { return data + std::int64_t{row} * a.head_width * kBytes; };
          if (!a.cache_wide) {
            STOA_UNROLL
            for (int j = 0; j < kPieces; ++j)
              piece(j, [&](T* at, int row, int column) {
                store16(at, row < 0 ? Bytes16{} : cached_pack<kForm, T>(source(row), column, a.d));
              });
            return;
          }
          STOA_UNROLL
          for (int begin = 0; begin < kPieces; begin += kAhead) {
            CachedPack<kForm> packs[kAhead];
            STOA_UNROLL
            for (int j = 0; j < kAhead; ++j)
              piece(begin + j, [&](T*, int row, int column) {
                if (row >= 0) packs[j].load(source(row), column, a.d);
              });
            STOA_UNROLL
            for (int j = 0; j < kAhead; ++j)
              piece(begin + j, [&](T* at, int, int) { store16(at, packs[j].template as<T>()); });
          }
        }
      });
    }
  };

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const GroupRows<true> rows(t, a, kRows);
    if (rows.none()) return;
    const Segment& segment = rows.segment;
    const Segment::Range range = rows.keys_of_tile(kRows);
    if (a.spans > 1 && range.begin >= range.end) return;
    const Tile tile(t, a.d);
    Shared& shared = *t.shared<Shared>();
    tile.template load_rows<kRows>(
        shared.q, a.wide, a.q.data, [&](int r) { return rows.has(r); },
        [&](int r) { return rows.template place<const T>(a.q, r); });
    t.commit_copies();

    // Rows of the cache: of all keys of the span, and of those whose scores the warp computes.
    const int low = static_cast<int>(rows.span) * kKeySpan, own = low + kWarpKeys * t.warp();
    const auto cache_row = [&](int key) {
      return key >= range.begin && key < range.end ? static_cast<int>(segment.key_row(a, rows.group, key))
                                                   : -1;
    };
    int own_rows[kWarpKeys / 32], all_rows[kKeySpan / 32];
    STOA_UNROLL
    for (int i = 0; i < kWarpKeys / 32; ++i) own_rows[i] = cache_row(own + 32 * i + t.lane());
    STOA_UNROLL
    for (int i = 0; i < kKeySpan / 32; ++i) all_rows[i] = cache_row(low + 32 * i + t.lane());

    const Source source{t, a, tile};
    const int first_column = kColumns * t.warp();
    const auto part = [&](int n) { return shared.parts[t.warp()][n % kSlots]; };
    const auto has_keys = [&](int p) { return range.meets(own + kPartKeys * p, kPartKeys); };
    const auto has_values = [&](int p) { return range.meets(low + kPartValues * p, kPartValues); };
    // Part n: those of keys, then those of values.
    const auto start = [&](int n) {
      const int p = n % kParts;
      if (n < kParts) {
        if (has_keys(p))
          source.template load<kMost / 8>(part(n), a.k, 0, [&](int r, int) {
            return t.shuffle(own_rows[p * kPartKeys / 32], p * kPartKeys % 32 + r);
          });
      } else if (n < 2 * kParts) {
        if (has_values(p))
          source.template load<kColumns / 8>(part(n), a.v, first_column, [&](int r, int part_of_rows) {
            return t.shuffle(all_rows[p * kPartValues / 32 + part_of_rows], r % 32);
          });
      }
      t.commit_copies();
    };
    STOA_UNROLL
    for (int n = 0; n < kSlots; ++n) start(n);
    t.wait_copies<kSlots>();
    t.sync();  // queries are there

    Sums<1, kWarpKeys / 8> s = {};
    STOA_UNROLL
    for (int p = 0; p < kParts; ++p) {
      t.wait_copies<kSlots - 1>();
      t.sync_warp();
      if (has_keys(p)) {
        const T* const keys = part(p);
        STOA_UNROLL
        for (int step = 0; step < Tile::kSteps; ++step) {
          if (step >= Tile::kSure && step >= tile.steps) continue;
          std::uint32_t left[4], right[4];
          load_fragments<false>(t, shared.q, kPitch, 0, 16 * step, true, left);
          t.load_matrices<false>(
              keys + place<kMost / 8>(t.lane() / 16 * 8 + t.lane() % 8, 2 * step + t.lane() / 8 % 2), right);
          t.multiply<T>(left, right[0], right[1], s[0][2 * p]);
          t.multiply<T>(left, right[2], right[3], s[0][2 * p + 1]);
        }
      }
      t.sync_warp();
      start(p + kSlots);
    }

    const int top_row = sum_row(t, 0);
    const int query[2] = {rows.query(top_row), rows.query(top_row + 8)},
              head[2] = {rows.head(top_row), rows.head(top_row + 8)};
    STOA_UNROLL
    for (int j = 0; j < kWarpKeys / 8; ++j) {
      STOA_UNROLL
      for (int n = 0; n < 4; ++n) {
        const int half = n / 2, key = own + 8 * j + sum_column(t, n);
        s[0][j][n] = segment.visible(a, query[half], key)
                         ? segment.score(a, head[half], query[half], key, s[0][j][n])
                         : -INFINITY;
      }
    }
    // As MatrixSoftmax adds groups of keys one after the other.
    float high[kOwnGroups][2];
    STOA_UNROLL
    for (int g = 0; g < kOwnGroups; ++g) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float most = kLowestScore;
        STOA_UNROLL
        for (int j = g * kAtOnce / 8; j < (g + 1) * kAtOnce / 8; ++j)
          most = fmaxf(most, fmaxf(s[0][j][2 * half], s[0][j][2 * half + 1]));
        high[g][half] = warp_reduce<Max>(t, most, 4);
        if (t.lane() % 4 == 0) shared.tops[kOwnGroups * t.warp() + g][top_row + 8 * half] = high[g][half];
      }
    }
    t.sync();
    float top[2] = {kLowestScore, kLowestScore};
    for (int g = 0; g < kOwnGroups * t.warp(); ++g) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) top[half] = fmaxf(top[half], shared.tops[g][top_row + 8 * half]);
    }
    STOA_UNROLL
    for (int g = 0; g < kOwnGroups; ++g) {
      STOA_UNROLL
      for (int half = 0; half < 2; ++half) {
        top[half] = fmaxf(top[half], high[g][half]);
        float sum = 0;
        STOA_UNROLL
        for (int j = g * kAtOnce / 8; j < (g + 1) * kAtOnce / 8; ++j) {
          STOA_UNROLL
          for (int n = 2 * half; n < 2 * half + 2; ++n) sum += s[0][j][n] = fast_exp(s[0][j][n] - top[half]);
        }
        shared.sums[kOwnGroups * t.warp() + g][half][t.lane()] = sum;
      }
    }
    STOA_UNROLL
    for (int p = 0; p < kParts; ++p) {
      std::uint32_t left[4];
      to_fragment<T>(s[0][2 * p], s[0][2 * p + 1], left);
      store16(shared.probabilities[kParts * t.warp() + p][t.lane()], {{left[0], left[1], left[2], left[3]}});
    }
    t.sync();

    Sums<1, kColumns / 8> out = {};
    float sum[2] = {0, 0};
    top[0] = top[1] = kLowestScore;
    STOA_UNROLL
    for (int p = 0; p < kParts; ++p) {
      t.wait_copies<kSlots - 1>();
      t.sync_warp();
      const T* const values = part(kParts + p);
      STOA_UNROLL
      for (int g = p * kPartValues / kAtOnce; g < (p + 1) * kPartValues / kAtOnce; ++g) {
        if (!range.meets(low + g * kAtOnce, kAtOnce)) continue;
        STOA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float before = top[half];
          top[half] = fmaxf(before, shared.tops[g][top_row + 8 * half]);
          const float shrink = fast_exp(before - top[half]);
          sum[half] = fmaf(sum[half], shrink, shared.sums[g][half][t.lane()]);
          STOA_UNROLL
          for (int j = 0; j < kColumns / 8; ++j)
            out[0][j][2 * half] *= shrink, out[0][j][2 * half + 1] *= shrink;
        }
        STOA_UNROLL
        for (int of = g * kAtOnce / 16; of < (g + 1) * kAtOnce / 16; ++of) {
          const Bytes16 words = load16(shared.probabilities[of][t.lane()]);
          const std::uint32_t left[4] = {words.words[0], words.words[1], words.words[2], words.words[3]};
          STOA_UNROLL
          for (int step = 0; step < kColumns / 16; ++step) {
            if (first_column + 16 * step >= 16 * tile.steps) continue;
            std::uint32_t right[4];
            t.load_matrices<true>(
                values + place<kColumns / 8>(16 * of % kPartValues + t.lane() % 16, 2 * step + t.lane() / 16),
                right);
            t.multiply<T>(left, right[0], right[1], out[0][2 * step]);
            t.multiply<T>(left, right[2], right[3], out[0][2 * step + 1]);
          }
        }
      }
      t.sync_warp();
      start(kParts + p + kSlots);
    }
    t.wait_copies<0>();

    STOA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float all = warp_reduce<Add>(t, sum[half], 4);
      const int row = top_row + 8 * half;
      if (!rows.has(row)) continue;
      const auto for_columns = [&](const auto& body) {
        STOA_UNROLL
        for (int j = 0; j < kColumns / 8; ++j) {
          STOA_UNROLL
          for (int n = 2 * half; n < 2 * half + 2; ++n) {
            const int column = first_column + 8 * j + sum_column(t, n);
            if (column < a.d) body(column, out[0][j][n]);
          }
        }
      };
      const bool first_lane = t.warp() == 0 && t.lane() % 4 == 0;
      if (a.spans > 1) {
        float* state = rows.state(row);
        for_columns([&](int column, float x) { state[column] = x; });
        if (first_lane) state[a.d] = top[half], state[a.d + 1] = all;
      } else {
        const JoinedTops joined(kLowestScore, top[half]);  // as JoinSpansKernel has it
        const float joined_sum = joined.of(0, all), factor = joined_sum == 0 ? 0.0f : 1.0f / joined_sum;
        T* o = rows.template place<T>(a.o, row);
        for_columns([&](int column, float x) { narrow(joined.of(0, x) * factor, o[column]); });
        if (a.lse && first_lane)
          a.lse[(segment.q_begin + query[half]) * a.heads + head[half]] =
              joined_sum == 0 ? -INFINITY : joined.after + logf(joined_sum);
      }
    }
  }
};

}  // namespace

void launch_few_queries(const AttentionArgs& a, void* stream) {
  with_matrix_heads(a, [&](auto type, auto most) {
    using Kernel = FewQueriesKernel<decltype(type), decltype(most)::value>;
    launch<Kernel>({.x = group_row_blocks(a, Kernel::kRows, true),
                    .threads = Kernel::kThreads,
                    .shared = sizeof(typename Kernel::Shared)},
                   stream, a);
  });
}

}  // namespace stoa::ops::cuda
