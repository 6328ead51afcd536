#include "data/ordered_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

namespace stoa::data {
namespace {

constexpr int kEnd = 300;

// Numbers 0 to kEnd - 1, doubled; one of the three stages may fail at `bad`.
struct Numbers {
  enum class Stage { kNone, kRead, kWork, kWrite };
  Stage failing = Stage::kNone;
  int bad = -1;
  std::size_t limit = 1 << 20;  // bytes in flight, of 10 each
  int next = 0;
  std::atomic<int> reading = 0, read = 0;
  int most = 0;  // read and not yet written
  std::vector<int> written;

  void fail(Stage stage, int value) const {
    if (failing == stage && value == bad) throw std::runtime_error(std::to_string(value));
  }
  void run(int workers, std::int64_t in_flight) {
    OrderedPipeline<int, int> pipeline(workers, in_flight, limit, [](int) { return std::size_t{10}; });
    pipeline.run(
        [&](int& in) {
          EXPECT_EQ(reading.fetch_add(1), 0);
          in = next++;
          fail(Stage::kRead, in);
          if (in < kEnd) ++read;
          reading.fetch_sub(1);
          return in < kEnd;
        },
        [&](int, int& in, int& out) {
          if (in % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          fail(Stage::kWork, in);
          out = 2 * in;
        },
        [&](int& out) {
          fail(Stage::kWrite, out / 2);
          most = std::max(most, read - static_cast<int>(written.size()));
          written.push_back(out);
        });
  }
};

TEST(OrderedPipeline, KeepsOrderAndBounds) {
  for (const int workers : {1, 2, 5}) {
    Numbers numbers;
    numbers.run(workers, 6);
    ASSERT_EQ(numbers.written.size(), std::size_t{kEnd}) << workers;
    for (int i = 0; i < kEnd; ++i) ASSERT_EQ(numbers.written[static_cast<std::size_t>(i)], 2 * i);
    EXPECT_LE(numbers.most, 6);
    Numbers narrow;
    narrow.limit = 20;
    narrow.run(workers, 6);
    EXPECT_EQ(narrow.written, numbers.written);
    EXPECT_LE(narrow.most, 2);
  }
}

TEST(OrderedPipeline, TheFirstFailureInOrderIsThrown) {
  using Stage = Numbers::Stage;
  for (const int workers : {1, 4})
    for (const Stage stage : {Stage::kRead, Stage::kWork, Stage::kWrite})
      for (const int bad : {0, 140, kEnd - 1}) {
        Numbers numbers;
        numbers.failing = stage;
        numbers.bad = bad;
        try {
          numbers.run(workers, 6);
          ADD_FAILURE() << "nothing was thrown";
        } catch (const std::runtime_error& e) {
          EXPECT_EQ(e.what(), std::to_string(bad));
        }
        EXPECT_EQ(numbers.written.size(), static_cast<std::size_t>(bad)) << "what came before is written";
      }
}

}  // namespace
}  // namespace stoa::data
