#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "base/error.h"
#include "data/prefetch.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;

TEST(Sampler, SequentialStartsAtConsumedSamples) {  // megatron-facts B6
  const Sampler sampler(100, SampleOrder::kSequential, 1);
  std::vector<std::int64_t> out;
  sampler.global_batch(40, 4, out);
  EXPECT_THAT(out, ElementsAre(40, 41, 42, 43));
  sampler.micro_batch(40, 1, 1, 2, 3, out);  // second block of 2 x 3, second half
  EXPECT_THAT(out, ElementsAre(49, 50, 51));
  EXPECT_THROW(sampler.global_batch(98, 4, out), DataError);
  EXPECT_THROW(Sampler(0, SampleOrder::kSequential, 1), DataError);
}

TEST(Sampler, AnyLayoutSeesTheSameGlobalBatch) {
  for (const auto order : {SampleOrder::kSequential, SampleOrder::kCyclic}) {
    const Sampler sampler(500, order, 1);
    std::vector<std::int64_t> whole, part;
    sampler.global_batch(60, 24, whole);
    for (const auto& [ranks, size] : {std::pair{1, 1}, {2, 3}, {4, 2}, {3, 4}, {24, 1}}) {
      std::vector<std::int64_t> joined;
      for (int m = 0; m < 24 / (ranks * size); ++m)
        for (int r = 0; r < ranks; ++r) {
          sampler.micro_batch(60, m, r, ranks, size, part);
          joined.insert(joined.end(), part.begin(), part.end());
        }
      EXPECT_EQ(joined, whole) << ranks << " x " << size;
    }
  }
}

TEST(Sampler, CyclicIsAPermutationOfEveryEpoch) {
  for (const std::int64_t n : {1, 2, 3, 5, 64, 65, 1000}) {
    const Sampler sampler(n, SampleOrder::kCyclic, 7);
    std::vector<std::vector<std::int64_t>> epochs;
    for (int e = 0; e < 3; ++e) {
      std::vector<std::int64_t> seen;
      sampler.global_batch(e * n, n, seen);
      epochs.push_back(seen);
      std::sort(seen.begin(), seen.end());
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
    }
    if (n >= 64) {
      EXPECT_NE(epochs[0], epochs[1]);
      EXPECT_NE(epochs[1], epochs[2]);
      EXPECT_FALSE(std::is_sorted(epochs[0].begin(), epochs[0].end()));
    }
  }
}

TEST(Sampler, CyclicOrderIsWellMixed) {  // no sample keeps its place, and neighbours part
  constexpr std::int64_t n = 4096;
  const Sampler sampler(n, SampleOrder::kCyclic, 3);
  std::vector<std::int64_t> order;
  sampler.global_batch(0, n, order);
  int fixed = 0, neighbours = 0;
  double correlation = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    fixed += order[i] == i;
    if (i > 0) neighbours += std::abs(order[i] - order[i - 1]) == 1;
    correlation += (static_cast<double>(order[i]) / n - 0.5) * (static_cast<double>(i) / n - 0.5);
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(neighbours, 12);
  EXPECT_LT(std::abs(correlation / n), 0.005);  // 3.8 standard deviations of a random order
}

TEST(Prefetcher, HandsOutInOrderAndRecyclesBuffers) {
  std::set<const void*> buffers;
  Prefetcher prefetcher(5, 3, [](std::int64_t number, Batch& batch, const std::stop_token&) {
    if (number == 105) return false;
    batch.resize(1, 8);
    batch.tokens[0] = static_cast<std::int32_t>(number);
    return true;
  });
  for (int expected = 5; expected < 105; ++expected) {
    const Batch* batch = prefetcher.next();
    ASSERT_NE(batch, nullptr);
    buffers.insert(batch->tokens.data());
    const int first = batch->tokens[0];
    std::this_thread::yield();
    ASSERT_EQ(batch->tokens[0], first);  // not overwritten while held
    ASSERT_EQ(first, expected);
  }
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_LE(buffers.size(), 4u);
}

TEST(Prefetcher, CarriesErrorsToTheirBatch) {
  Prefetcher prefetcher(0, 4, [](std::int64_t number, Batch& batch, const std::stop_token&) {
    require<DataError>(number != 2, "batch {}", number);
    batch.resize(1, 1);
    return true;
  });
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_THROW(prefetcher.next(), DataError);
  EXPECT_THROW(prefetcher.next(), DataError);
}

TEST(Prefetcher, StaysWithinItsDepthAndStops) {
  std::atomic<int> made = 0;
  {
    Prefetcher prefetcher(0, 2, [&](std::int64_t, Batch& batch, const std::stop_token&) {
      batch.resize(1, 1);
      ++made;
      return true;
    });
    prefetcher.next();
    while (made < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // would it make more?
    EXPECT_EQ(made, 3);                                          // the one held and two ahead
  }                                                              // ends although nobody takes the rest
}

}  // namespace
}  // namespace stoa::data
