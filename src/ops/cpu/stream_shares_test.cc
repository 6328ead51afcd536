#include "ops/cpu/stream_shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/worker_pool.h"

namespace stoa::ops::cpu {
namespace {

TEST(StreamShares, EveryRowIsReadOnceWhoeverIsThere) {
  for (const std::int64_t rows : {1, 15, 16, 17, 576, 49152})
    for (const std::int64_t at_once : {1, 8, 32})
      for (const int workers : {1, 2, 3, 80})
        for (const int there : {1, 3}) {  // the others are late
          StreamShares shares(rows, at_once, 4, workers);
          std::vector<int> times(static_cast<std::size_t>(rows));
          WorkerPool pool(there);
          pool.run(there, [&](std::int64_t, int worker) {
            shares.work(worker, [&](std::int64_t first, std::int64_t end, std::int64_t stop) {
              EXPECT_LT(first, end);
              EXPECT_LE(end, stop);
              EXPECT_EQ(first % at_once, 0);
              for (std::int64_t r = first; r < end; ++r) ++times[static_cast<std::size_t>(r)];
            });
          });
          EXPECT_EQ(times, std::vector<int>(times.size(), 1));
        }
}

TEST(StreamShares, AWorkerReadsItsShareInOrderAndThenTheEndsOfOthers) {
  StreamShares shares(200, 1, 10, 2);
  EXPECT_EQ(shares.begin(0), 0);
  EXPECT_EQ(shares.begin(1), 100);
  EXPECT_EQ(shares.begin(2), 200);
  std::vector<std::int64_t> firsts;
  shares.work(1, [&](std::int64_t first, std::int64_t, std::int64_t stop) {
    firsts.push_back(first);
    if (first >= 100) {
      EXPECT_EQ(stop, 200);
    }
  });
  EXPECT_EQ(firsts, (std::vector<std::int64_t>{100, 150, 175, 187, 197, 50, 25, 13, 3, 0}));
}

}  // namespace
}  // namespace stoa::ops::cpu
