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
  static constexpr int kThreads = 128, kAhead = 8;  // states that are asked for at once

  static std::size_t shared_bytes(const Args& a) {
    return sizeof(float) * static_cast<std::size_t>(3 * a.spans + kThreads);
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
    highest[t.index()] = high;
    t.sync();
    float before = kLowestScore, top = kLowestScore;
    for (int i = 0; i < kThreads; ++i) {
      if (i == t.index()) before = top;
      top = fmaxf(top, highest[i]);
    }
    for (int i = begin; i < end; ++i) {
      const JoinedTops joined(before, added[i]);
      before = joined.after, kept[i] = joined.kept, added[i] = joined.added;
    }
    t.sync();
    float sum = 0;
    for (int i = 0; i < count; ++i) sum = JoinedTops::of(sum, kept[i], sums[i], added[i]);
    const float factor = sum == 0 ? 0.0f : 1.0f / sum;
    const std::int64_t row = segment.q_begin + query;
    T* o = static_cast<T*>(a.o.data) + row * a.o.stride + head * a.d;
    for (int c = t.index(); c < a.d; c += kThreads) {
      float out = 0;
      for (int i = 0; i < count; i += kAhead) {
        float x[kAhead];
        STOA_UNROLL
        for (int j = 0; j < kAhead; ++j) x[j] = i + j < count ? states[(i + j) * width + c] : 0;
        STOA_UNROLL
        for (int j = 0; j < kAhead; ++j)
          if (i + j < count) out = JoinedTops::of(out, kept[i + j], x[j], added[i + j]);
      }
      narrow(out * factor, o[c]);
    }
    if (a.lse && t.index() == 0) a.lse[row * a.heads + head] = sum == 0 ? -INFINITY : top + logf(sum);
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
