// Tasks of many rows on tiles, for attention_paged_kernels.cc: scores are held transposed, [keys, rows], in
// panels of 32 rows. Maxima, sums and rescaling of the softmax then need no work across lanes, and values are
// packed once for all rows. Every sum has the terms and the order of PagedTileProducts and PagedSoftmax: the
// bits of a row do not depend on how many rows its task has.
#pragma once

#include "ops/cpu/attention_paged_spans.h"
#include "ops/cpu/attention_paged_tiles.h"

#if STOA_ISA_LEVEL >= 3
namespace stoa::ops::cpu::STOA_ISA {

constexpr std::int64_t kPanelRows = 32;
constexpr std::int64_t kBlockWords = kBlock / 2;  // pairs of keys

// PagedSoftmax of the rows of a panel: lanes of a row's sum are rows of `sum`.
struct PanelSoftmax {
  std::int64_t d;
  float *output, *sum, *top;  // [d][kPanelRows], [kLanes][kPanelRows], [kPanelRows]

  PanelSoftmax(float* memory, std::int64_t d_)
      : d(d_), output(memory), sum(memory + d_ * kPanelRows), top(sum + kLanes * kPanelRows) {}
  static std::int64_t floats(std::int64_t d) { return (d + kLanes + 1) * kPanelRows; }

  void clear() const {
    std::memset(output, 0, static_cast<std::size_t>(top - output) * sizeof(float));
    for (std::int64_t r = 0; r < kPanelRows; r += kLanes) store(top + r, splat(-kInfinity));
  }

  // Adds the span that follows, in the first `lanes` rows.
  void add(const PanelSoftmax& span, std::int64_t lanes) const {
    for (std::int64_t r = 0; r < lanes; r += kLanes) {
      const F before = load(top + r), here = load(span.top + r);
      const SpanJoin join(before, here);
      const I nothing = here == splat(-kInfinity);
      // Outputs, and the sums after them.
      for (std::int64_t i = r; i < (d + kLanes) * kPanelRows; i += kPanelRows) {
        const F old = load(output + i);
        store(output + i, select(nothing, old, join(old, load(span.output + i))));
      }
      store(top + r, join.top);
    }
  }

  // To `rows` rows of another form, from its row `first`.
  void copy_to(const PagedSoftmax& to, std::int64_t first, std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; r += kLanes) {
      const int count = static_cast<int>(rows - r < kLanes ? rows - r : kLanes);
      const auto turn = [&](const float* from, float* into, std::int64_t width) {
        F tile[kLanes];
        for (int j = 0; j < kLanes; ++j) tile[j] = load(from + j * kPanelRows);
        transpose(tile);
        for (int j = 0; j < count; ++j) store(into + j * width, tile[j]);
      };
      for (std::int64_t i = 0; i < d; i += kLanes)
        turn(output + i * kPanelRows + r, to.output + (first + r) * to.width + i, to.width);
      turn(sum + r, to.sum + (first + r) * kLanes, kLanes);
      store_first(to.top + first + r, load(top + r), count);
    }
  }
};

// The keys [first, end) that each row of a panel sees.
struct PanelKeys {
  std::int32_t first[kPanelRows], end[kPanelRows];
};

// Turns products of a panel's rows with `keys` keys into weights, as words, given and updating the softmax.
// `first`, `end`: what the rows see, from the first key of the block; looked at if kPartial.
template <int kVectors, bool kPartial>
STOA_INLINE void soften_panel(float scale, std::int64_t keys, const I* first, const I* end,
                              const float* products, const PanelSoftmax& softmax, float* words,
                              float* alpha) {
  const auto score = [&](std::int64_t j, int v) __attribute__((always_inline)) {
    const F s = load(products + j * kPanelRows + v * kLanes) * scale;
    if constexpr (!kPartial) return s;
    const auto key = static_cast<std::int32_t>(j);
    return select((first[v] <= key) & (end[v] > key), s, splat(-kInfinity));
  };
  F peak[kVectors], shift[kVectors], fade[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) peak[v] = splat(-kInfinity);
  for (std::int64_t j = 0; j < keys; ++j)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) peak[v] = max(score(j, v), peak[v]);
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const F before = load(softmax.top + v * kLanes), here = peak[v];
    shift[v] = higher(here, before);
    fade[v] = select(before == shift[v], splat(1.0f),
                     select(before == splat(-kInfinity), F{}, Pairs::power((before - shift[v]) * kLog2E)));
    store(softmax.top + v * kLanes, shift[v]);
    store(alpha + v * kLanes, fade[v]);
  }
  // Lane i of a row's sum has keys i, i + kLanes ... of each block.
  for (std::int64_t lane = 0; lane < kLanes; lane += 2) {
    F total[2][kVectors];
    float* const sum = softmax.sum + lane * kPanelRows;
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) total[odd][v] = load(sum + odd * kPanelRows + v * kLanes) * fade[v];
    const auto pair = [&](std::int64_t j, int count) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        F weight[2]{};
#pragma GCC unroll 2
        for (int odd = 0; odd < count; ++odd) {
          const F s = score(j + odd, v);
          weight[odd] = select(s == splat(-kInfinity), F{}, Pairs::power((s - shift[v]) * kLog2E));
          total[odd][v] += weight[odd];
        }
        store(words + j / 2 * kPanelRows + v * kLanes, key_words<Pairs>(weight[0], weight[1]));
      }
    };
    std::int64_t j = lane;
    for (; j + 1 < keys; j += kLanes) pair(j, 2);
    if (j < keys) pair(j, 1);
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) store(sum + odd * kPanelRows + v * kLanes, total[odd][v]);
  }
}

template <class Keys, bool kPairs>
class PagedTilePanels : public PagedTileOperands<Keys, kPairs> {
  using Operands = PagedTileOperands<Keys, kPairs>;
  using Operands::d_, Operands::key_row, Operands::key_tile, Operands::prepare, Operands::queries,
      Operands::rows_, Operands::value_words, Operands::words;
  static_assert(Operands::kColumns == kPanelRows);

 public:
  using Storage = typename Keys::Storage;
  static std::int64_t floats(std::int64_t rows, std::int64_t d) { return Memory(rows, d).end; }

  PagedTilePanels(const AttentionArgs& args, const AttentionSegment& segment, const PagedHeads& heads,
                  float* memory)
      : Operands(args, heads, PagedRows{args, segment, heads}.count(), memory,
                 memory + Memory(PagedRows{args, segment, heads}.count(), args.d).keys),
        args_(args),
        heads_(heads),
        row_of_{args, segment, heads},
        see_{args, segment},
        at_(rows_, args.d),
        memory_(memory) {}

  void run() {
    this->pack_queries(args_.q.type,
                       [&](std::int64_t row) -> const void* { return row_of_.place(args_.q, row); });
    for (std::int64_t r = 0; r < rows_; r += kPanelRows) {
      span(r).clear();
      total(r).clear();
      PanelKeys& sees = visible(r);
      for (std::int64_t i = 0; i < kPanelRows; ++i) {  // lanes beyond the last row repeat its keys
        const std::int64_t query = row_of_.query(r + i < rows_ ? r + i : rows_ - 1);
        sees.first[i] = static_cast<std::int32_t>(see_.first(query));
        sees.end[i] = static_cast<std::int32_t>(see_.last(query));
      }
    }
    const SpansOfTask spans(see_, heads_);
    for_key_blocks<Storage>(
        args_, heads_, spans.first_key, spans.end_key, see_.last(heads_.end - 1),
        [&](std::int64_t k0, const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next)
            __attribute__((always_inline)) {
              prepare(keys);
              pack_values(keys, next);
              const std::int64_t after = k0 + kBlock;
              const bool last_of_span = after % kKeySpan == 0 || after >= spans.end_key;
              for (std::int64_t r = 0; r < rows_; r += kPanelRows) {
                rows_ - r > kLanes ? add_block<2>(k0, keys, r) : add_block<1>(k0, keys, r);
                if (last_of_span) finish_span(k0 / kKeySpan, r);
              }
            });
    if (heads_.states) return;
    const PagedSoftmax output(memory_ + at_.rows, rows_, d_, rows_);
    for (std::int64_t r = 0; r < rows_; r += kPanelRows) total(r).copy_to(output, r, panel_rows(r));
    row_of_.write(output);
  }

 private:
  struct Memory {
    std::int64_t keys, values, products, weights, alpha, visible, spans, totals, rows, end;
    Memory(std::int64_t count, std::int64_t d) {
      const std::int64_t panels = (count + kPanelRows - 1) / kPanelRows;
      keys = panels * (d / 2) * kPanelRows;         // queries are before them
      values = keys + kBlock * (d / 2);             // [d][kBlockWords]
      products = values + d * kBlockWords;          // [kBlock][kPanelRows]
      weights = products + kBlock * kPanelRows;     // [kBlockWords][kPanelRows]
      alpha = weights + kBlockWords * kPanelRows;   // [kPanelRows]
      visible = alpha + kPanelRows;                 // [panels] PanelKeys
      spans = visible + panels * kPanelKeysFloats;  // [panels] PanelSoftmax
      totals = spans + panels * PanelSoftmax::floats(d);
      rows = totals + panels * PanelSoftmax::floats(d);
      end = rows + PagedSoftmax::floats(count, d);
    }
  };
  static constexpr std::int64_t kPanelKeysFloats = sizeof(PanelKeys) / sizeof(float);

  PanelSoftmax span(std::int64_t row) const {
    return {memory_ + at_.spans + row / kPanelRows * PanelSoftmax::floats(d_), d_};
  }
  PanelSoftmax total(std::int64_t row) const {
    return {memory_ + at_.totals + row / kPanelRows * PanelSoftmax::floats(d_), d_};
  }
  PanelKeys& visible(std::int64_t row) const {
    return *reinterpret_cast<PanelKeys*>(memory_ + at_.visible + row / kPanelRows * kPanelKeysFloats);
  }
  std::int64_t panel_rows(std::int64_t row) const {
    return rows_ - row < kPanelRows ? rows_ - row : kPanelRows;
  }

  // Words of the values along the keys, zero where there are none.
  void pack_values(const PagedKeys<Storage>& keys, const PagedKeys<Storage>& next) const {
    for (std::int64_t k = 0; k < round_up(keys.count, 2 * kLanes); k += 2 * kLanes) {
      next.fetch_keys(k, k + 2 * kLanes);
      next.fetch_values(k, k + 2 * kLanes);
      for (std::int64_t i = 0; i < d_; i += kLanes) {
        F tile[kLanes];
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; ++j) {
          const std::int64_t low = k + 2 * j;
          tile[j] = low < keys.count
                        ? value_words(keys.v[low], low + 1 < keys.count ? keys.v[low + 1] : nullptr, i)
                        : F{};
        }
        transpose(tile);
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; ++j) store(memory_ + at_.values + (i + j) * kBlockWords + k / 2, tile[j]);
      }
    }
  }

  // Adds a block of keys to the softmax of the panel from `row`, of which kVectors vectors are rows.
  template <int kVectors>
  void add_block(std::int64_t k0, const PagedKeys<Storage>& keys, std::int64_t row) const {
    const PanelKeys& sees = visible(row);
    const std::int64_t end = k0 + keys.count;
    if (sees.end[kPanelRows - 1] <= k0 || sees.first[0] >= end) return;  // nothing of it is visible
    constexpr bool kAcross = kVectors > 1;
    float *const products = memory_ + at_.products, *const weights = memory_ + at_.weights,
                 *const alpha = memory_ + at_.alpha;
    for (std::int64_t j = 0; j < keys.count; j += 16)
      amx_product<false, kAcross>(words(), key_tile(keys, j), key_row(), queries(row / kPanelRows),
                                  kPanelRows, products + j * kPanelRows, kPanelRows, false);
    const PanelSoftmax softmax = span(row);
    if (sees.end[0] >= end && sees.first[kPanelRows - 1] <= k0) {
      soften_panel<kVectors, false>(args_.scale, keys.count, nullptr, nullptr, products, softmax, weights,
                                    alpha);
    } else {
      I first[kVectors], last[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(&first[v], sees.first + v * kLanes, sizeof(I));
        std::memcpy(&last[v], sees.end + v * kLanes, sizeof(I));
        first[v] -= static_cast<std::int32_t>(k0);
        last[v] -= static_cast<std::int32_t>(k0);
      }
      soften_panel<kVectors, true>(args_.scale, keys.count, first, last, products, softmax, weights, alpha);
    }
    const std::int64_t pairs = round_up(keys.count, 2 * kLanes) / 2;
    for (std::int64_t k = (keys.count + 1) / 2; k < pairs; ++k)
      for (int v = 0; v < kVectors; ++v) store(weights + k * kPanelRows + v * kLanes, F{});
    amx_block_product(d_, kVectors, pairs, memory_ + at_.values, kBlockWords, weights, kPanelRows,
                      softmax.output, kPanelRows, Into::kScaleAdd, alpha);
  }

  void finish_span(std::int64_t index, std::int64_t row) const {
    if (heads_.states) return span(row).copy_to(row_of_.state(index), row, panel_rows(row));
    total(row).add(span(row), panel_rows(row));
    span(row).clear();
  }

  const AttentionArgs& args_;
  const PagedHeads& heads_;
  PagedRows row_of_;
  Visible see_;
  Memory at_;
  float* memory_;
};

}  // namespace stoa::ops::cpu::STOA_ISA
#endif
