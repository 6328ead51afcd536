#include "base/fetch_ahead.h"

#include <gtest/gtest.h>

#include <array>

namespace stoa {

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

  // A worker that last looked when `from` was read finds that `now` is, and fetches neither.
  void catch_up_from(int from, int now) {
    const FetchAhead::Matrix* const read = ahead_.known_.at(memory_.data() + now);
    FetchAhead::Cursor cursor{.current = ahead_.known_.at(memory_.data() + from), .matrix = read};
    FetchAhead::catch_up(cursor, read, 1);
    EXPECT_EQ(cursor.current, read);
    EXPECT_EQ(cursor.offset, read->part(1)) << "nothing of it is left to fetch";
    EXPECT_EQ(cursor.ahead, 0);
  }

  static constexpr std::int64_t kKilobyte = 1024;
  std::array<std::byte, 8> memory_;  // addresses alone: what is fetched may lie outside
  FetchAhead ahead_{2};
};

namespace {

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

// A worker that was delayed looks for a matrix to which the order no longer leads: 0 and 1 follow each other.
TEST_F(FetchAheadTest, CirclesEnd) {
  for (const int m : {2, 0, 1, 0, 1}) read(m, 2 * kKilobyte);
  catch_up_from(0, 2);
}

}  // namespace
}  // namespace stoa
