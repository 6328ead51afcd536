// The softmax of each span of a query's keys becomes its output, in the order of the keys.
#include <cmath>

#include "ops/cuda/kernels/attention_paths.h"
#include "ops/cuda/kernels/attention_softmax.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block has a query and a head, its threads the columns.
template <class T>
struct JoinSpansKernel {
  using Args = AttentionArgs;
  static constexpr const char* kName = "attention of spans";
  static constexpr int kThreads = 128, kAhead = 16;  // states that are asked for before others are added

  static std::size_t shared_bytes(const Args& a) {
    return sizeof(float) * static_cast<std::size_t>(3 * a.spans + kThreads / 32);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t number = t.block_x() / a.few;
    const int query = static_cast<int>(t.block_x() - number * a.few), head = static_cast<int>(t.block_y());
    const Segment segment(a, number);
    if (query >= segment.queries || segment.queries > a.few) return;
    const Segment::Range range = segment.keys_of(a, query, 1);
    const int first = range.begin / kKeySpan,
              count = range.end > range.begin ? (range.end + kKeySpan - 1) / kKeySpan - first : 0;
    const std::int64_t width = a.d + kSpanSums;
    const float* states = segment.states(a, number, query, head) + first * width;
    const auto load = [&](int c, int begin, float(&x)[kAhead]) {
      STOA_UNROLL
      for (int j = 0; j < kAhead; ++j)
        x[j] = begin + j < count && c < a.d ? states[(begin + j) * width + c] : 0;
    };
    float ahead[kAhead];
    load(t.index(), 0, ahead);
    // Sums of spans, and the factors of JoinedTops.
    float *sums = t.shared<float>(), *kept = sums + a.spans, *added = kept + a.spans,
          *highest = added + a.spans;
    const int each = (count + kThreads - 1) / kThreads, begin = t.index() * each,
              end = begin + each < count ? begin + each : count;
    float high = kLowestScore;
    for (int i = begin; i < end; ++i) {
      added[i] = states[i * width + a.d];
      sums[i] = states[i * width + a.d + 1];
      high = fmaxf(high, added[i]);
    }
    for (int by = 1; by < 32; by *= 2) high = fmaxf(high, t.shuffle_up(high, by));
    if (t.lane() == 31) highest[t.warp()] = high;
    const float of_lanes_before = t.shuffle_up(high, 1);
    t.sync();
    float before = t.lane() > 0 ? of_lanes_before : kLowestScore, top = kLowestScore;
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < t.warp()) before = fmaxf(before, highest[w]);
      top = fmaxf(top, highest[w]);
    }
    for (int i = begin; i < end; ++i) {
      const JoinedTops joined(before, added[i]);
      before = joined.after, kept[i] = joined.kept, added[i] = joined.added;
    }
    t.sync();
    const std::int64_t row = segment.q_begin + query;
    T* o = static_cast<T*>(a.o.data) + row * a.o.stride + head * a.d;
    for (int c = t.index(); c < a.d; c += kThreads) {
      float out = 0, sum = 0;
      for (int i = 0; i < count; i += kAhead) {
        float x[kAhead];
        STOA_UNROLL
        for (int j = 0; j < kAhead; ++j) x[j] = ahead[j];
        const bool more = i + kAhead < count;
        load(more ? c : c + kThreads, more ? i + kAhead : 0, ahead);
        STOA_UNROLL
        for (int j = 0; j < kAhead; ++j)
          if (i + j < count) {
            sum = JoinedTops::of(sum, kept[i + j], sums[i + j], added[i + j]);
            out = JoinedTops::of(out, kept[i + j], x[j], added[i + j]);
          }
      }
      const float factor = sum == 0 ? 0.0f : 1.0f / sum;
      narrow(out * factor, o[c]);
      if (a.lse && c == 0) a.lse[row * a.heads + head] = sum == 0 ? -INFINITY : top + logf(sum);
    }
  }
};

}  // namespace

void launch_join_spans(const AttentionArgs& a, void* stream) {
  with_fast_type(a.type, [&](auto type) {
    using Kernel = JoinSpansKernel<decltype(type)>;
    launch<Kernel>({.x = a.segments * a.few,
                    .y = a.heads,
                    .threads = Kernel::kThreads,
                    .shared = Kernel::shared_bytes(a)},
                   stream, a);
  });
}

}  // namespace stoa::ops::cuda
