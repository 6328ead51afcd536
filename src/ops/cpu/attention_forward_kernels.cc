#include "ops/cpu/attention_tiles.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// Memory of one task, in floats.
struct ForwardMemory {
  std::int64_t query, output, keys, values, scores, weights, top, sum, alpha, end;
  ForwardMemory(std::int64_t per, std::int64_t d) {
    const std::int64_t dp = padded(d), block = kBlock * dp;
    query = 0;                                             // [blocks][dw][kBlock]
    output = query + kForwardBlocks * block / per;         // [blocks][dp][kBlock]
    keys = output + kForwardBlocks * block;                // [kBlock][dw]
    values = keys + block / per;                           // [kBlock / per][dp]
    scores = values + block / per;                         // [kBlock][kBlock]
    weights = scores + kBlock * kBlock;                    // [kBlock / 2][kBlock] with pairs
    top = weights + (per == 2 ? kBlock * kBlock / 2 : 0);  // [blocks][kBlock]
    sum = top + kForwardBlocks * kBlock;
    alpha = sum + kForwardBlocks * kBlock;
    end = alpha + kBlock;
  }
};

std::size_t forward_bytes(Element type, std::int64_t d) {
  return static_cast<std::size_t>(ForwardMemory(per_word(type), d).end) * sizeof(float);
}

// Turns scores of kVectors vectors of queries into weights, given and updating their running maximum and sum.
// Row by row: the vectors of a row lie side by side.
template <class P, int kVectors, bool kPartial, bool kDropout, bool kScored>
STOA_INLINE void soften(const AttentionArgs& args, const AttentionSegment& segment, const BlockMask& mask,
                        const BlockScores<P>& scored, std::int64_t head, std::int64_t q_at, std::int64_t keys,
                        std::int64_t first_column, float* scores, float* weights, float* top, float* sum,
                        float* alpha) {
  const F factor = splat(kScored ? 1.0f : (args.scale < 0 ? -args.scale : args.scale) * P::kUnit);
  F peak[kVectors], shift[kVectors], total[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) peak[v] = splat(-kInfinity);
  for (std::int64_t j = 0; j < keys; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      F s = load(scores + j * kBlock + v * kLanes);
      if constexpr (kScored) {
        F slope;
        s = scored.score(s, j, first_column + v * kLanes, slope);
      }
      if constexpr (kPartial) s = select(mask.row(j, first_column + v * kLanes), s, splat(-kInfinity));
      if constexpr (kPartial || kScored) store(scores + j * kBlock + v * kLanes, s);
      peak[v] = max(s, peak[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    // The running maximum is kept as it is subtracted, rounded: the same rounding then cancels in the sum.
    const F before = load(top + v * kLanes), after = max(peak[v] * factor, before);
    // A query that has seen nothing yet: any finite shift leaves its weights 0.
    shift[v] = select(after == -kInfinity, F{}, after);
    const F fade = P::power(before - shift[v]);
    total[v] = load(sum + v * kLanes) * fade;
    store(top + v * kLanes, after);
    store(alpha + v * kLanes, fade);
  }
  BlockDropout dropout[kVectors];
  if constexpr (kDropout)
    for (int v = 0; v < kVectors; ++v)
      dropout[v].start(args, segment, head, q_at + first_column + v * kLanes, mask.k0);
  const auto weight = [&](std::int64_t j, int v) {
    F p = P::power(fma(load(scores + j * kBlock + v * kLanes), factor, -shift[v]));
    total[v] += p;
    if constexpr (kDropout) p = p * dropout[v].factor(args, j);
    return p;
  };
  if constexpr (P::kPerWord == 2) {
    std::int64_t j = 0;
    for (; j + 2 <= keys; j += 2) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const F even = weight(j, v), odd = weight(j + 1, v);
        store(weights + j / 2 * kBlock + v * kLanes, key_words<P>(even, odd));
      }
    }
    if (j < keys)
      for (int v = 0; v < kVectors; ++v)
        store(weights + j / 2 * kBlock + v * kLanes, key_words<P>(weight(j, v), F{}));
  } else {
    for (std::int64_t j = 0; j < keys; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store(scores + j * kBlock + v * kLanes, weight(j, v));
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(sum + v * kLanes, total[v]);
}

template <class P>
STOA_INLINE void soften_block(const AttentionArgs& args, const AttentionSegment& segment,
                              const BlockMask& mask, std::int64_t head, std::int64_t q_at, std::int64_t keys,
                              std::int64_t vectors, float* scores, float* weights, float* top, float* sum,
                              float* alpha) {
  BlockScores<P> scored;
  if (has_block_scores(args)) scored.start(args, head, q_at, mask.k0);
  for_vector_groups(vectors, mask.partial, args.dropout != 0, has_block_scores(args),
                    [&](std::int64_t column, auto count, auto partial, auto drop, auto is_scored) {
                      soften<P, count.value, partial.value, drop.value, is_scored.value>(
                          args, segment, mask, scored, head, q_at, keys, column, scores + column,
                          weights + column, top + column, sum + column, alpha + column);
                    });
}

template <class P>
void forward_task(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                  std::int64_t begin, std::int64_t end, float* memory) {
  using E = typename P::Type;
  using Storage = typename E::Storage;
  const std::int64_t d = args.d, dp = padded(d), dw = dp / P::kPerWord;
  const ForwardMemory at(P::kPerWord, d);
  const std::int64_t group = head / (args.heads / args.groups);
  const auto* q =
      static_cast<const Storage*>(args.q.data) + (segment.q_row + begin) * args.q.stride + head * d;
  const auto* k = static_cast<const Storage*>(args.k.data) + segment.k_row * args.k.stride + group * d;
  const auto* v = static_cast<const Storage*>(args.v.data) + segment.k_row * args.v.stride + group * d;
  auto* o = static_cast<Storage*>(args.o.data) + (segment.q_row + begin) * args.o.stride + head * d;
  const Visible see{args, segment};

  const std::int64_t queries = end - begin, blocks = (queries + kBlock - 1) / kBlock;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t count = queries - b * kBlock < kBlock ? queries - b * kBlock : kBlock;
    pack_columns<P>(q + b * kBlock * args.q.stride, args.q.stride, count, d, args.scale < 0,
                    memory + at.query + b * kBlock * dw);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      memory[at.top + b * kBlock + i] = -kInfinity;
      memory[at.sum + b * kBlock + i] = 0;
    }
    std::memset(memory + at.output + b * kBlock * dp, 0,
                static_cast<std::size_t>(kBlock * dp) * sizeof(float));
  }
  const std::int64_t first_key = see.first(begin), last_key = see.last(end - 1);
  for (std::int64_t k0 = first_key; k0 < last_key; k0 += kBlock) {
    const std::int64_t keys = last_key - k0 < kBlock ? last_key - k0 : kBlock;
    pack_rows<P>(k + k0 * args.k.stride, args.k.stride, keys, d, memory + at.keys);
    pack_across<P>(v + k0 * args.v.stride, args.v.stride, keys, d, memory + at.values);
    if constexpr (P::kTiles) clear_missing_words(memory + at.weights, keys);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t q0 = begin + b * kBlock;
      const std::int64_t count = end - q0 < kBlock ? end - q0 : kBlock;
      if (see.last(q0 + count - 1) <= k0 || see.first(q0) >= k0 + keys) continue;  // nothing of it is visible
      const std::int64_t vectors = (count + kLanes - 1) / kLanes;
      const BlockMask mask(see, q0, vectors * kLanes, k0, keys);
      block_product<P>(keys, vectors, dw, memory + at.keys, dw, 1, memory + at.query + b * kBlock * dw,
                       kBlock, memory + at.scores, kBlock, Into::kSet);
      soften_block<P>(args, segment, mask, head, see.at(q0), keys, vectors, memory + at.scores,
                      memory + at.weights, memory + at.top + b * kBlock, memory + at.sum + b * kBlock,
                      memory + at.alpha);
      block_product<P>(dp, vectors, (keys + P::kPerWord - 1) / P::kPerWord, memory + at.values,
                       across_row<P>(dp), across_word<P>(dp),
                       memory + (P::kPerWord == 2 ? at.weights : at.scores), kBlock,
                       memory + at.output + b * kBlock * dp, kBlock, Into::kScaleAdd, memory + at.alpha);
    }
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t count = queries - b * kBlock < kBlock ? queries - b * kBlock : kBlock;
    float* inverse = memory + at.alpha;
    const float* sum = memory + at.sum + b * kBlock;
    const float* top = memory + at.top + b * kBlock;
    for (std::int64_t i = 0; i < kBlock; ++i)
      inverse[i] = sum[i] > 0 || sum[i] != sum[i] ? 1.0f / sum[i] : 0.0f;
    unpack_columns<E>(memory + at.output + b * kBlock * dp, inverse, o + b * kBlock * args.o.stride,
                      args.o.stride, count, d);
    if (args.lse) {
      float* lse = args.lse + (segment.q_row + begin + b * kBlock) * args.heads + head;
      for (std::int64_t i = 0; i < count; ++i)
        lse[i * args.heads] = sum[i] == 0 ? -kInfinity : top[i] / P::kUnit + __builtin_logf(sum[i]);
    }
  }
}

void forward(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
             std::int64_t begin, std::int64_t end, void* memory) {
  with_words(args.q.type, [&](auto tag) {
    forward_task<decltype(tag)>(args, segment, head, begin, end, static_cast<float*>(memory));
  });
}

// A head's rows of keys and values are far apart: the processor does not foresee them.
constexpr std::int64_t kFetchKeys = 12;  // rows ahead
constexpr int kAtOnce = 4;               // vectors of values summed together, to hide latency
template <class E>
void decode_query(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                  std::int64_t query, float* memory) {
  using Storage = typename E::Storage;
  const std::int64_t d = args.d, group = head / (args.heads / args.groups);
  const auto* q =
      static_cast<const Storage*>(args.q.data) + (segment.q_row + query) * args.q.stride + head * d;
  const auto* k = static_cast<const Storage*>(args.k.data) + segment.k_row * args.k.stride + group * d;
  const auto* v = static_cast<const Storage*>(args.v.data) + segment.k_row * args.v.stride + group * d;
  auto* o = static_cast<Storage*>(args.o.data) + (segment.q_row + query) * args.o.stride + head * d;
  const Visible see{args, segment};
  const std::int64_t first = see.first(query), last = see.last(query);
  float* sum = memory;
  float* p = memory + round_up(d, kLanes);
  for_vectors(d,
              [&](std::int64_t i, auto part) { F32::put(sum + i, E::get(q + i, part) * args.scale, part); });
  for (std::int64_t j = first; j < last; ++j) {
    F dot{};
    const auto* key = k + j * args.k.stride;
    fetch_row<E>(key + kFetchKeys * args.k.stride, d);
    fetch_row<E>(v + j * args.v.stride, d);
    for_vectors(d, [&](std::int64_t i, auto part) {
      dot = fma(F32::get(sum + i, part), E::get(key + i, part), dot);
    });
    p[j - first] = reduce_add(dot);
  }
  if (has_block_scores(args)) score_query(args, head, see.at(query), first, last, p);
  float top = -kInfinity;
  for (std::int64_t j = first; j < last; ++j) top = p[j - first] > top ? p[j - first] : top;
  F total{};
  for_vectors(last - first, [&](std::int64_t i, auto part) {
    F e = exp(F32::get(p + i, part) - top);
    if constexpr (__is_same(decltype(part), First)) e = select(lane_numbers() < part.count, e, F{});
    total += e;
    F32::put(p + i, e, part);
  });
  const float norm = last > first ? reduce_add(total) : 0.0f;
  std::int64_t column = 0;
  for (; column + kAtOnce * kLanes <= d; column += kAtOnce * kLanes) {
    F total_value[kAtOnce] = {};
    for (std::int64_t j = first; j < last; ++j)
#pragma GCC unroll 4
      for (int u = 0; u < kAtOnce; ++u)
        total_value[u] = fma(splat(p[j - first]), E::get(v + j * args.v.stride + column + u * kLanes, Full{}),
                             total_value[u]);
    for (int u = 0; u < kAtOnce; ++u) F32::put(sum + column + u * kLanes, total_value[u], Full{});
  }
  for_vectors(d - column, [&](std::int64_t i, auto part) {
    F total_value{};
    for (std::int64_t j = first; j < last; ++j)
      total_value = fma(splat(p[j - first]), E::get(v + j * args.v.stride + column + i, part), total_value);
    F32::put(sum + column + i, total_value, part);
  });
  const float inverse = last > first ? 1.0f / norm : 0.0f;
  for_vectors(d, [&](std::int64_t i, auto part) { E::put(o + i, F32::get(sum + i, part) * inverse, part); });
  if (args.lse)
    args.lse[(segment.q_row + query) * args.heads + head] =
        last > first ? top + __builtin_logf(norm) : -kInfinity;
}

void decode(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head, std::int64_t query,
            void* memory) {
  with_type(args.q.type, [&](auto tag) {
    decode_query<decltype(tag)>(args, segment, head, query, static_cast<float*>(memory));
  });
}

void merge(const AttentionMergeArgs& args, std::int64_t begin, std::int64_t end) {
  with_type(args.part.type, [&](auto tag) {
    using E = decltype(tag);
    for (std::int64_t row = begin; row < end; ++row) {
      const float own = args.lse[row], other = args.part_lse[row];
      const float top = own > other ? own : other;
      if (top == -kInfinity) continue;  // no key in either
      const float a = __builtin_expf(own - top), b = __builtin_expf(other - top), sum = a + b;
      const auto* part = static_cast<const typename E::Storage*>(args.part.data) + row * args.part.stride;
      float* o = static_cast<float*>(args.o.data) + row * args.o.stride;
      for_vectors(args.part.columns, [&](std::int64_t i, auto piece) {
        F32::put(o + i, fma(E::get(part + i, piece), splat(b / sum), F32::get(o + i, piece) * (a / sum)),
                 piece);
      });
      args.lse[row] = top + __builtin_logf(sum);
    }
  });
}

}  // namespace

#if STOA_ISA_LEVEL >= 3
namespace {

void forward_on_tiles(const AttentionArgs& args, const AttentionSegment& segment, std::int64_t head,
                      std::int64_t begin, std::int64_t end, void* memory) {
  if (!fits_tiles(args.q.type, args.d)) return forward(args, segment, head, begin, end, memory);
  enter_tiles();
  forward_task<TilePairs>(args, segment, head, begin, end, static_cast<float*>(memory));
  leave_tiles();
}

}  // namespace

const AttentionForwardKernels& attention_forward_tile_kernels() {
  static constexpr AttentionForwardKernels kTable{forward_on_tiles, decode, forward_bytes, merge};
  return kTable;
}
#endif

const AttentionForwardKernels& attention_forward_kernels() {
  static constexpr AttentionForwardKernels kTable{forward, decode, forward_bytes, merge};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
