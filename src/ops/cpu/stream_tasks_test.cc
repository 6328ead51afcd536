#include "ops/cpu/stream_tasks.h"

#include <gtest/gtest.h>

namespace stoa::ops::cpu {
namespace {

TEST(StreamTasks, CoverAllRowsInOrder) {
  for (const std::int64_t rows : {1, 15, 16, 17, 576, 49152, 1'000'003})
    for (const std::int64_t at_once : {1, 8, 32})
      for (const std::int64_t tokens : {1, 4, 5, 64})
        for (const std::int64_t workers : {1, 2, 3, 16, 200}) {
          const StreamTasks tasks(rows, at_once, 4, tokens, workers);
          ASSERT_GE(tasks.count(), 1);
          ASSERT_LE(tasks.count(), StreamTasks::kMost);
          EXPECT_EQ(tasks.first(0), 0);
          EXPECT_EQ(tasks.end(tasks.count() - 1), rows);
          for (std::int64_t t = 0; t < tasks.count(); ++t) {
            EXPECT_LT(tasks.first(t), tasks.end(t));
            EXPECT_EQ(tasks.first(t) % at_once, 0);
            if (t > 0) {
              EXPECT_EQ(tasks.first(t), tasks.end(t - 1));
            }
          }
        }
}

TEST(StreamTasks, OneTokenLeavesLittleForLaterRounds) {
  const StreamTasks tasks(1000, 1, 1, 1, 2);
  EXPECT_EQ(tasks.end(0), 450);
  EXPECT_EQ(tasks.end(1), 900);
  EXPECT_EQ(StreamTasks(1000, 1, 1, 64, 2).end(0), 250);
}

}  // namespace
}  // namespace stoa::ops::cpu
