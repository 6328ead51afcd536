#include "ops/cpu/attention_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// Memory of one task, in floats. Queries of one head are packed once and used with every block of keys.
struct BackwardMemory {
  std::int64_t query_columns, query_pairs, dout_columns, dout_pairs, output, dquery, delta, lse;
  std::int64_t keys, key_pairs, values, dkeys, dvalues, scores, slopes, weights, dscores, dscore_pairs, ones,
      end;
  BackwardMemory(std::int64_t per, std::int64_t d, std::int64_t longest_q, std::int64_t longest_k,
                 bool grouped) {
    const std::int64_t dp = padded(d), block = kBlock * dp;
    const std::int64_t queries = round_up(longest_q, kBlock) * dp;
    const std::int64_t sums = grouped ? round_up(longest_k, kBlock) * dp : block;
    const std::int64_t square = per == 2 ? kBlock * kBlock / 2 : 0;
    query_columns = 0;                            // [blocks][dw][kBlock]
    query_pairs = query_columns + queries / per;  // [blocks][kBlock / per][dp]
    dout_columns = query_pairs + queries / per;
    dout_pairs = dout_columns + queries / per;
    output = dout_pairs + queries / per;  // [dw][kBlock], of one block
    dquery = output + block / per;        // [blocks][dp][kBlock]
    delta = dquery + queries;             // [blocks][kBlock]
    lse = delta + round_up(longest_q, kBlock);
    keys = lse + round_up(longest_q, kBlock);  // [kBlock][dw]
    key_pairs = keys + block / per;            // [kBlock / per][dp]
    values = key_pairs + block / per;          // [kBlock][dw]
    dkeys = values + block / per;              // [kBlock or all keys][dp]
    dvalues = dkeys + sums;
    scores = dvalues + sums;             // [kBlock][kBlock]; singles: weights, too
    slopes = scores + kBlock * kBlock;   // [kBlock][kBlock]; singles: gradients of the scores, too
    weights = slopes + kBlock * kBlock;  // pairs: [kBlock][kBlock / 2] words along the queries
    dscores = weights + square;          // the same
    dscore_pairs = dscores + square;     // [kBlock / 2][kBlock] words along the keys
    ones = dscore_pairs + square;
    end = ones + kBlock;
  }
};

std::size_t backward_bytes(Element type, std::int64_t d, std::int64_t longest_q, std::int64_t longest_k,
                           bool grouped) {
  return static_cast<std::size_t>(BackwardMemory(per_word(type), d, longest_q, longest_k, grouped).end) *
         sizeof(float);
}

// Converts scores and slopes (gradients of the dropped weights) of kVectors vectors of queries to words of
// weights and of score gradients.
template <class P, int kVectors, bool kPartial, bool kDropout, bool kScored>
STOA_INLINE void differentiate(const AttentionArgs& args, const AttentionSegment& segment,
                               const BlockMask& mask, BlockScores<P>& scored, std::int64_t head,
                               std::int64_t q_at, std::int64_t keys, std::int64_t first_column,
                               const float* lse, const float* delta, float* memory,
                               const BackwardMemory& at) {
  const F factor = splat((args.scale < 0 ? -args.scale : args.scale) * P::kUnit);
  float* scores = memory + at.scores + first_column;
  float* slopes = memory + at.slopes + first_column;
  F shift[kVectors], mean[kVectors];
  BlockDropout dropout[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    shift[v] = load(lse + first_column + v * kLanes);
    mean[v] = load(delta + first_column + v * kLanes);
    if constexpr (kDropout) dropout[v].start(args, segment, head, q_at + first_column + v * kLanes, mask.k0);
  }
  // Returns the dropped weight and sets the gradient of the score.
  const auto element = [&](std::int64_t j, int v, F& gradient) {
    F s, by_product;
    if constexpr (kScored)
      s = scored.score(load(scores + j * kBlock + v * kLanes), j, first_column + v * kLanes, by_product) -
          shift[v];
    else
      s = fma(load(scores + j * kBlock + v * kLanes), factor, -shift[v]);
    if constexpr (kPartial) s = select(mask.row(j, first_column + v * kLanes), s, splat(-kInfinity));
    const F p = P::power(s);
    F slope = load(slopes + j * kBlock + v * kLanes);
    F dropped = p;
    if constexpr (kDropout) {
      const F keep = dropout[v].factor(args, j);
      slope = slope * keep;
      dropped = p * keep;
    }
    gradient = p * (slope - mean[v]);
    if constexpr (kScored) {
      if (segment.bias_gradient) scored.add_gradient(gradient, j, first_column + v * kLanes);
      gradient *= by_product;
    }
    return dropped;
  };
  if constexpr (P::kPerWord == 2) {
    constexpr std::int64_t kHalf = kBlock / 2;
    const auto row = [&](std::int64_t j, F(&gradient)[kVectors + 1]) {
      F weight[kVectors + 1];
      weight[kVectors] = gradient[kVectors] = F{};  // the other half of a word if there is a single vector
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) weight[v] = element(j, v, gradient[v]);
      const std::int64_t word = j * kHalf + first_column / 2;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v += 2) {
        F w = query_words<P>(weight[v], weight[v + 1]), g = query_words<P>(gradient[v], gradient[v + 1]);
        if constexpr (kVectors == 1) {  // the words of one vector are half a vector
          store_first(memory + at.weights + word, w, kLanes / 2);
          store_first(memory + at.dscores + word, g, kLanes / 2);
        } else {
          store(memory + at.weights + word + v * kLanes / 2, w);
          store(memory + at.dscores + word + v * kLanes / 2, g);
        }
      }
    };
    for (std::int64_t j = 0; j < keys; j += 2) {
      F even[kVectors + 1], odd[kVectors + 1] = {};
      row(j, even);
      if (j + 1 < keys) row(j + 1, odd);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        store(memory + at.dscore_pairs + j / 2 * kBlock + first_column + v * kLanes,
              key_words<P>(even[v], odd[v]));
    }
  } else {
    for (std::int64_t j = 0; j < keys; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        F gradient;
        const F weight = element(j, v, gradient);
        store(scores + j * kBlock + v * kLanes, weight);
        store(slopes + j * kBlock + v * kLanes, gradient);
      }
  }
}

// For an odd number of query vectors: zeroes the words up to a multiple of sixteen, which tiles read.
STOA_INLINE void clear_missing_halves(float* weights, float* dscores, std::int64_t keys,
                                      std::int64_t vectors) {
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int64_t word = j * kBlock / 2 + vectors * kLanes / 2;
    store_first(weights + word, F{}, kLanes / 2);
    store_first(dscores + word, F{}, kLanes / 2);
  }
}

template <class P>
void pack_queries(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                  float* memory, const BackwardMemory& at) {
  using E = typename P::Type;
  using Storage = typename E::Storage;
  const std::int64_t d = args.d, dp = padded(d), words = kBlock * dp / P::kPerWord;
  const auto row = [&](const Rows& rows, std::int64_t i) {
    return static_cast<const Storage*>(rows.data) + (segment.q_row + i) * rows.stride + head * d;
  };
  for (std::int64_t q0 = 0, b = 0; q0 < segment.queries; q0 += kBlock, ++b) {
    const std::int64_t count = segment.queries - q0 < kBlock ? segment.queries - q0 : kBlock;
    float* pairs[] = {memory + at.query_pairs + b * words, memory + at.dout_pairs + b * words};
    for (float* p : pairs) std::memset(p, 0, static_cast<std::size_t>(words) * sizeof(float));
    pack_columns<P>(row(args.q, q0), args.q.stride, count, d, args.scale < 0,
                    memory + at.query_columns + b * words);
    pack_columns<P>(row(args.dout, q0), args.dout.stride, count, d, false,
                    memory + at.dout_columns + b * words);
    pack_pairs<P>(row(args.q, q0), args.q.stride, count, d, pairs[0]);
    pack_pairs<P>(row(args.dout, q0), args.dout.stride, count, d, pairs[1]);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      float lse = kInfinity;  // lanes without a query, and queries that see nothing, weigh 0
      if (i < count) {
        const float given = args.lse[(segment.q_row + q0 + i) * args.heads + head];
        if (given != -kInfinity) lse = given * P::kUnit;
      }
      memory[at.lse + q0 + i] = lse;
    }
    // delta = dout . o, summed in the order of block_product: where a query sees one key it cancels dout . v
    // exactly.
    if constexpr (P::kTiles) {
      const std::int64_t vectors = (count + kLanes - 1) / kLanes;
      pack_rows<P>(row(args.o, q0), args.o.stride, count, d, memory + at.output);
      block_product<P>(count, vectors, dp / 2, memory + at.output, dp / 2, 1,
                       memory + at.dout_columns + b * words, kBlock, memory + at.scores, kBlock, Into::kSet);
      for (std::int64_t i = 0; i < vectors * kLanes; ++i)
        memory[at.delta + q0 + i] = i < count ? memory[at.scores + i * kBlock + i] : 0.0f;
    } else {
      pack_columns<P>(row(args.o, q0), args.o.stride, count, d, false, memory + at.output);
      for (std::int64_t i = 0; i < count; i += kLanes) {
        F sum{};
        for (std::int64_t w = 0; w < dp / P::kPerWord; ++w)
          sum = P::product(load(memory + at.output + w * kBlock + i),
                           load(memory + at.dout_columns + b * words + w * kBlock + i), sum);
        store(memory + at.delta + q0 + i, sum);
      }
    }
    std::memset(memory + at.dquery + b * kBlock * dp, 0,
                static_cast<std::size_t>(kBlock * dp) * sizeof(float));
  }
}

// Rows of a gradient from its fp32 sums.
template <class E>
STOA_INLINE void write_rows(const float* sums, std::int64_t dp, float factor, typename E::Storage* to,
                            std::int64_t stride, std::int64_t count, std::int64_t d) {
  for (std::int64_t r = 0; r < count; ++r)
    for_vectors(d, [&](std::int64_t i, auto part) {
      E::put(to + r * stride + i, F32::get(sums + r * dp + i, part) * factor, part);
    });
}

template <class P>
void backward_task(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t group,
                   float* memory) {
  using E = typename P::Type;
  using Storage = typename E::Storage;
  const std::int64_t d = args.d, dp = padded(d), dw = dp / P::kPerWord, words = kBlock * dp / P::kPerWord;
  const std::int64_t per_group = args.heads / args.groups;
  const bool grouped = per_group > 1;
  const BackwardMemory at(P::kPerWord, d, segment.queries, segment.keys, grouped);
  const auto key_row = [&](const Rows& rows, std::int64_t j) {
    return static_cast<Storage*>(rows.data) + (segment.k_row + j) * rows.stride + group * d;
  };
  const Visible see{args, segment};

  for (std::int64_t member = 0; member < per_group; ++member) {
    const std::int64_t head = group * per_group + member;
    const bool finish = member == per_group - 1;
    pack_queries<P>(args, segment, head, memory, at);
    if (segment.bias_gradient)
      std::memset(segment.bias_gradient + head * args.offsets, 0,
                  static_cast<std::size_t>(args.offsets) * sizeof(float));
    for (std::int64_t k0 = 0; k0 < segment.keys; k0 += kBlock) {
      const std::int64_t keys = segment.keys - k0 < kBlock ? segment.keys - k0 : kBlock;
      float* dkeys = memory + at.dkeys + (grouped ? k0 * dp : 0);
      float* dvalues = memory + at.dvalues + (grouped ? k0 * dp : 0);
      if (member == 0) {
        std::memset(dkeys, 0, static_cast<std::size_t>(keys * dp) * sizeof(float));
        std::memset(dvalues, 0, static_cast<std::size_t>(keys * dp) * sizeof(float));
      }
      pack_rows<P>(key_row(args.k, k0), args.k.stride, keys, d, memory + at.keys);
      pack_across<P>(key_row(args.k, k0), args.k.stride, keys, d, memory + at.key_pairs);
      if constexpr (P::kTiles) clear_missing_words(memory + at.dscore_pairs, keys);
      pack_rows<P>(key_row(args.v, k0), args.v.stride, keys, d, memory + at.values);
      for (std::int64_t q0 = 0, b = 0; q0 < segment.queries; q0 += kBlock, ++b) {
        const std::int64_t count = segment.queries - q0 < kBlock ? segment.queries - q0 : kBlock;
        if (see.last(q0 + count - 1) <= k0 || see.first(q0) >= k0 + keys)
          continue;  // nothing of it is visible
        const std::int64_t vectors = (count + kLanes - 1) / kLanes;
        const BlockMask mask(see, q0, vectors * kLanes, k0, keys);
        block_product<P>(keys, vectors, dw, memory + at.keys, dw, 1, memory + at.query_columns + b * words,
                         kBlock, memory + at.scores, kBlock, Into::kSet);
        block_product<P>(keys, vectors, dw, memory + at.values, dw, 1, memory + at.dout_columns + b * words,
                         kBlock, memory + at.slopes, kBlock, Into::kSet);
        BlockScores<P> scored;
        if (has_block_scores(args)) scored.start(args, head, see.at(q0), k0);
        for_vector_groups(vectors, mask.partial, args.dropout != 0, has_block_scores(args),
                          [&](std::int64_t column, auto group_size, auto partial, auto drop, auto is_scored) {
                            differentiate<P, group_size.value, partial.value, drop.value, is_scored.value>(
                                args, segment, mask, scored, head, see.at(q0), keys, column,
                                memory + at.lse + q0, memory + at.delta + q0, memory, at);
                          });
        if (segment.bias_gradient) scored.finish(args, segment, head, see.at(q0), k0);
        const bool pairs = P::kPerWord == 2;
        const std::int64_t along = kBlock / P::kPerWord, query_words_used = vectors * kLanes / P::kPerWord;
        if constexpr (P::kTiles)
          if (vectors % 2 == 1) clear_missing_halves(memory + at.weights, memory + at.dscores, keys, vectors);
        block_product<P>(keys, dp / kLanes, query_words_used, memory + (pairs ? at.weights : at.scores),
                         along, 1, memory + at.dout_pairs + b * words, dp, dvalues, dp, Into::kAdd);
        block_product<P>(keys, dp / kLanes, query_words_used, memory + (pairs ? at.dscores : at.slopes),
                         along, 1, memory + at.query_pairs + b * words, dp, dkeys, dp, Into::kAdd);
        block_product<P>(dp, vectors, (keys + P::kPerWord - 1) / P::kPerWord, memory + at.key_pairs,
                         across_row<P>(dp), across_word<P>(dp),
                         memory + (pairs ? at.dscore_pairs : at.slopes), kBlock,
                         memory + at.dquery + b * kBlock * dp, kBlock, Into::kAdd);
      }
      if (finish) {
        write_rows<E>(dkeys, dp, args.scale, key_row(args.dk, k0), args.dk.stride, keys, d);
        write_rows<E>(dvalues, dp, 1.0f, key_row(args.dv, k0), args.dv.stride, keys, d);
      }
    }
    float* factors = memory + at.ones;
    for (std::int64_t i = 0; i < kBlock; ++i) factors[i] = args.scale;
    auto* dq = static_cast<Storage*>(args.dq.data) + segment.q_row * args.dq.stride + head * d;
    for (std::int64_t q0 = 0, b = 0; q0 < segment.queries; q0 += kBlock, ++b) {
      const std::int64_t count = segment.queries - q0 < kBlock ? segment.queries - q0 : kBlock;
      unpack_columns<E>(memory + at.dquery + b * kBlock * dp, factors, dq + q0 * args.dq.stride,
                        args.dq.stride, count, d);
    }
  }
}

void backward(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t group, void* memory) {
  with_words(args.q.type, [&](auto tag) {
    backward_task<decltype(tag)>(args, segment, group, static_cast<float*>(memory));
  });
}

}  // namespace

#if STOA_ISA_LEVEL >= 3
namespace {

void backward_on_tiles(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t group,
                       void* memory) {
  if (!fits_tiles(args.q.type, args.d)) return backward(args, segment, group, memory);
  enter_tiles();
  backward_task<TilePairs>(args, segment, group, static_cast<float*>(memory));
  leave_tiles();
}

}  // namespace

const AttentionBackwardKernels& attention_backward_tile_kernels() {
  static constexpr AttentionBackwardKernels kTable{backward_on_tiles, backward_bytes};
  return kTable;
}
#endif

const AttentionBackwardKernels& attention_backward_kernels() {
  static constexpr AttentionBackwardKernels kTable{backward, backward_bytes};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
