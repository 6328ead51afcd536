#include "ops/cuda/kernels/expert_groups.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = static_cast<int>(kGroupChunk);

// Calls body(i, sum of value(j) for j < i) for all i < count, on a whole block; returns the sum of all.
template <class Value, class Body>
STOA_DEVICE std::int32_t for_prefixes(const Thread& t, std::int64_t count, std::int32_t* slots,
                                      const Value& value, const Body& body) {
  std::int32_t before = 0;
  for (std::int64_t first = 0; first < count; first += t.count()) {
    const std::int64_t i = first + t.index();
    const Prefix<std::int32_t> sum = block_prefix(t, i < count ? value(i) : 0, slots);
    if (i < count) body(i, before + sum.before);
    before += sum.all;
  }
  return before;
}

// The expert of an assignment; expert_count: nobody.
STOA_DEVICE std::int32_t expert_of(const GroupByExpertArgs& a, std::int64_t assignment) {
  const std::int32_t id = a.experts[assignment];
  return id >= 0 && id < a.expert_count ? id : static_cast<std::int32_t>(a.expert_count);
}

struct ChunksKernel {
  using Args = GroupByExpertArgs;
  static constexpr const char* kName = "group by expert, counts";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* counts = t.shared<std::int32_t>();
    count_in_block(t, counts, a.expert_count + 1, [&](const auto& count) {
      const std::int64_t i = t.block_x() * kGroupChunk + t.index();
      if (i < a.assignments) count(expert_of(a, i));
    });
    for (std::int64_t e = t.index(); e <= a.expert_count; e += t.count())
      a.chunks[t.block_x() * (a.expert_count + 1) + e] = counts[e];
  }
};

// One block: chunks becomes the sums over the chunks before; starts.
struct StartsKernel {
  using Args = GroupByExpertArgs;
  static constexpr const char* kName = "group by expert, starts";
  static constexpr int kThreads = 512;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* slots = t.shared<std::int32_t>();
    auto* totals = slots + t.warps();
    const std::int64_t chunks = (a.assignments + kGroupChunk - 1) / kGroupChunk, width = a.expert_count + 1;
    for (std::int64_t e = t.index(); e < width; e += t.count()) {
      std::int32_t sum = 0;
      for (std::int64_t c = 0; c < chunks; ++c) {
        const std::int32_t here = a.chunks[c * width + e];
        a.chunks[c * width + e] = sum;
        sum += here;
      }
      totals[e] = sum;
    }
    t.sync();
    // `self` first, then the other members.
    const auto at = [&](std::int64_t i) {
      const std::int64_t rank = i / a.each;
      const std::int64_t member = rank == 0 ? a.self : rank <= a.self ? rank - 1 : rank;
      return member * a.each + i % a.each;
    };
    const auto count = [&](std::int64_t i) {
      const std::int64_t which = at(i);
      return totals[which / a.each / a.copies * a.each + which % a.each];
    };
    const std::int32_t all =
        for_prefixes(t, a.members * a.each, slots, count, [&](std::int64_t i, std::int32_t before) {
          a.starts[at(i)] = before;
          if (a.counts) a.counts[at(i)] = count(i);
        });
    if (t.index() == 0) a.starts[a.members * a.each] = all;
  }
};

struct PlacesKernel {
  using Args = GroupByExpertArgs;
  static constexpr const char* kName = "group by expert, places";
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* ids = t.shared<std::int32_t>();
    const std::int64_t i = t.block_x() * kGroupChunk + t.index();
    const std::int32_t expert = i < a.assignments ? expert_of(a, i) : -1;
    ids[t.index()] = expert;
    t.sync();
    if (expert < 0) return;
    std::int32_t before = a.chunks[t.block_x() * (a.expert_count + 1) + expert];
    for (int other = 0; other < t.index(); ++other) before += ids[other] == expert;
    const bool nobody = expert == a.expert_count;
    for (std::int64_t c = 0; c < a.copies; ++c) {
      const std::int64_t row =
          nobody ? a.starts[a.members * a.each] + before * a.copies + c
                 : a.starts[(expert / a.each * a.copies + c) * a.each + expert % a.each] + before;
      a.order[row] = static_cast<std::int32_t>(i * a.copies + c);
      a.place[i * a.copies + c] = static_cast<std::int32_t>(row);
      if (a.sorted_experts) a.sorted_experts[row] = nobody ? -1 : expert;
    }
  }
};

// One block: `self` arrives last.
struct ArrivalsKernel {
  using Args = GroupArrivalsArgs;
  static constexpr const char* kName = "group arrivals, starts";
  static constexpr int kThreads = 512;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* slots = t.shared<std::int32_t>();
    const std::int64_t count = a.members * a.each;
    const std::int32_t all = for_prefixes(
        t, count, slots,
        [&](std::int64_t i) {
          const std::int64_t rank = i / a.each;
          const std::int64_t member = rank == a.members - 1 ? a.self : rank < a.self ? rank : rank + 1;
          return a.counts[member * a.each + i % a.each];
        },
        [&](std::int64_t i, std::int32_t before) { a.arrivals[i] = before; });
    if (t.index() == 0) a.arrivals[count] = all;
    for_prefixes(
        t, count, slots, [&](std::int64_t i) { return a.counts[i % a.members * a.each + i / a.members]; },
        [&](std::int64_t i, std::int32_t before) {
          const std::int64_t member = i % a.members;
          const std::int64_t rank = member == a.self ? a.members - 1 : member < a.self ? member : member - 1;
          a.places[rank * a.each + i / a.members] = before;
        });
  }
};

struct ArrivalPlacesKernel {
  using Args = GroupArrivalsArgs;
  static constexpr const char* kName = "group arrivals, places";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * t.count() + t.index();
    if (i >= a.rows) return;
    const std::int64_t count = a.members * a.each;
    if (i >= a.arrivals[count]) {
      a.order[i] = a.place[i] = static_cast<std::int32_t>(i);
      a.sorted_experts[i] = -1;
      return;
    }
    // The last that begins at i or before.
    std::int64_t low = 0, high = count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (a.arrivals[middle] <= i ? low : high) = middle;
    }
    const std::int64_t row = a.places[low] + i - a.arrivals[low];
    a.place[i] = static_cast<std::int32_t>(row);
    if (row >= a.rows) return;
    a.order[row] = static_cast<std::int32_t>(i);
    a.sorted_experts[row] = static_cast<std::int32_t>(low % a.each);
  }
};

}  // namespace

void launch_group_by_expert(const GroupByExpertArgs& a, void* stream) {
  const std::int64_t chunks = ceil_div(a.assignments, kGroupChunk);
  const auto width = static_cast<std::size_t>(a.expert_count + 1);
  launch<ChunksKernel>({.x = chunks, .threads = kBlock, .shared = width * sizeof(std::int32_t)}, stream, a);
  launch<StartsKernel>({.threads = StartsKernel::kThreads,
                        .shared = (width + StartsKernel::kThreads / 32) * sizeof(std::int32_t)},
                       stream, a);
  launch<PlacesKernel>({.x = chunks, .threads = kBlock, .shared = kBlock * sizeof(std::int32_t)}, stream, a);
}

void launch_group_arrivals(const GroupArrivalsArgs& a, void* stream) {
  launch<ArrivalsKernel>(
      {.threads = ArrivalsKernel::kThreads, .shared = ArrivalsKernel::kThreads / 32 * sizeof(std::int32_t)},
      stream, a);
  launch<ArrivalPlacesKernel>({.x = ceil_div(a.rows, 256), .threads = 256}, stream, a);
}

}  // namespace stoa::ops::cuda
