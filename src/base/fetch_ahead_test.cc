#include "base/fetch_ahead.h"

#include <gtest/gtest.h>

#include <array>

namespace stoa {
namespace {

// Matrices that two workers read by halves.
class FetchAheadTest : public testing::Test {
 protected:
  void read(int matrix, std::int64_t bytes) {
    ahead_.reads(memory_.data() + matrix, bytes, [&](int worker) { return bytes * worker / 2; });
  }
  // Kilobytes that a worker without work fetches.
  int fetched(int worker) {
    int steps = 0;
    while (ahead_.step(worker)) ++steps;
    return steps;
  }

  static constexpr std::int64_t kKilobyte = 1024;
  std::array<std::byte, 8> memory_;  // addresses alone: what is fetched may lie outside
  FetchAhead ahead_{2};
};

TEST_F(FetchAheadTest, WhatFollowedIsFetchedOnce) {
  EXPECT_EQ(fetched(1), 0);
  for (int pass = 0; pass < 2; ++pass)
    for (int m = 0; m < 3; ++m) read(m, (2 + 2 * m) * kKilobyte);
  // The parts of 0 and 1, which follow 2; 2 itself is being read.
  EXPECT_EQ(fetched(1), 1 + 2);
  read(0, 2 * kKilobyte);
  EXPECT_EQ(fetched(1), 3);  // 2, as 1 was fetched
  EXPECT_EQ(fetched(0), 2 + 3);
}

TEST_F(FetchAheadTest, NoMoreThanFitsIntoACache) {
  const std::int64_t bytes = 3 * FetchAhead::kMost;
  for (int pass = 0; pass < 2; ++pass)
    for (int m = 0; m < 3; ++m) read(m, bytes);
  EXPECT_EQ(fetched(1), FetchAhead::kMost / kKilobyte);
  EXPECT_EQ(fetched(1), 0);
  read(0, bytes);
  EXPECT_EQ(fetched(1), FetchAhead::kMost / kKilobyte);
}

TEST_F(FetchAheadTest, AnotherOrderIsLearned) {
  for (const int m : {0, 1, 0, 2, 0}) read(m, 2 * kKilobyte);
  EXPECT_EQ(fetched(0), 1);  // 2, which comes before 0
  read(1, 2 * kKilobyte);
  EXPECT_EQ(fetched(0), 1 + 0);  // 0, before 1
}

// 3 and 4 lead to each other, and 5, which is read, is not among them.
TEST_F(FetchAheadTest, CirclesEnd) {
  const std::int64_t bytes = 2 * kKilobyte;
  for (const int m : {3, 4, 0, 3}) read(m, bytes);
  EXPECT_EQ(fetched(1), 2);  // 4 and 0; 3 is read
  for (const int m : {4, 3, 4, 5}) read(m, bytes);
  for (const int m : {4, 3, 4, 3, 5}) read(m, bytes);
  EXPECT_GE(fetched(1), 0);
}

}  // namespace
}  // namespace stoa
