// Ranks that share a device: on host memory, with streams that work later than they are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "base/error.h"
#include "comm/communicator_suite.h"
#include "comm/queue_stream.h"
#include "comm/threads/thread_world.h"

namespace stoa::comm {
namespace {

using suite::QueueStream, suite::QueueTransfer, suite::collectives;
using ::testing::HasSubstr;

// One rank's streams; tensors that say they are of `memory` go to the device.
struct Rank {
  Rank(ThreadWorld& world, int rank, DeviceKind memory = DeviceKind::kHost) {
    world.share_device(rank, {memory, &transfer, &side});
  }
  QueueTransfer transfer;
  QueueStream side, stream;
};

std::vector<std::unique_ptr<Communicator>> group_of_all(ThreadWorld& world, const char* label) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.create(label, ranks);
}

template <class T>
class SharedDeviceOf : public ::testing::Test {};
using Types = ::testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(SharedDeviceOf, Types);

TYPED_TEST(SharedDeviceOf, CollectivesEqualSerialComputation) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadWorld world(size);
    auto comms = group_of_all(world, "tp");
    world.run([&](int number) {
      Rank rank(world, number);
      for (const std::int64_t n : {1, 7, 1025})
        collectives<TypeParam>(*comms[number], n, n == 7, rank.stream);
    });
  }
}

// The device is stopped before it makes the tensors; the hosts continue to the end of several steps.
TEST(SharedDevice, TheHostWaitsForNoWorkOfTheDevice) {
  constexpr int kSize = 3, kSteps = 4;
  ThreadWorld world(kSize);
  auto comms = group_of_all(world, "dp"), others = group_of_all(world, "tp");
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  world.run([&](int number) {
    Rank rank(world, number);
    std::vector<float> x(999), y(999), gathered(999 * kSize), seen;
    rank.stream.submit([opened] { opened.wait(); });
    for (int step = 0; step < kSteps; ++step) {
      rank.stream.submit([&, step] { std::fill(x.begin(), x.end(), static_cast<float>(number + step)); });
      auto sum = comms[number]->all_reduce(suite::view(x), ReduceOp::kSum, rank.stream);
      auto all = others[number]->all_gather(suite::view(y), suite::view(gathered), rank.stream);
      EXPECT_FALSE(sum->ready());
      sum->wait();
      all->wait();
      rank.stream.submit([&] {
        seen.push_back(x[998]);
        y = x;
      });
    }
    EXPECT_TRUE(seen.empty());
    comms[number]->barrier();
    if (number == 0) gate.set_value();
    rank.stream.synchronize();
    EXPECT_EQ(seen, std::vector<float>({3, 6, 9, 12}));
    EXPECT_EQ(gathered, std::vector<float>(999 * kSize, 9.0f));  // of the step before
    comms[number]->barrier();
  });
}

// Two groups in the opposite order on two ranks, and transfers in both directions.
TEST(SharedDevice, OrdersOfGroupsDoNotLockUp) {
  ThreadWorld world(2);
  auto tp = group_of_all(world, "tp"), dp = group_of_all(world, "dp");
  world.run([&](int number) {
    Rank rank(world, number);
    std::vector<float> a(50, 1), b(50, 2), c(50, 3), d(50);
    for (int k = 0; k < 20; ++k) {
      Communicator &first = *(number == 0 ? tp : dp)[number], &second = *(number == 0 ? dp : tp)[number];
      std::vector<float>&x = number == 0 ? a : b, &y = number == 0 ? b : a;
      auto one = first.all_reduce(suite::view(x), ReduceOp::kMax, rank.stream);
      auto two = second.all_reduce(suite::view(y), ReduceOp::kMax, rank.stream);
      auto sent = tp[number]->send(suite::view(c), 1 - number, rank.stream);
      tp[number]->receive(suite::view(d), 1 - number, rank.stream)->wait();
      one->wait();
      two->wait();
      sent->wait();
    }
    rank.stream.synchronize();
    EXPECT_EQ(a, std::vector<float>(50, 1));
    EXPECT_EQ(b, std::vector<float>(50, 2));
    EXPECT_EQ(d, c);
    tp[number]->barrier();
  });
}

TensorView on_device(std::vector<float>& x) {
  TensorView view = suite::view(x);
  view.device = DeviceKind::kCuda;
  return view;
}

TEST(SharedDevice, TensorsOfTheHostGoTheirOwnWay) {
  ThreadWorld world(2);
  auto comms = group_of_all(world, "dp");
  world.run([&](int number) {
    Rank rank(world, number, DeviceKind::kCuda);
    std::vector<float> host(4, 1), large(100000, 2), device(5, 3);
    auto sum = comms[number]->all_reduce(on_device(device), ReduceOp::kSum, rank.stream);
    comms[number]->all_reduce(suite::view(host), ReduceOp::kSum, rank.stream)->wait();
    comms[number]->all_reduce(suite::view(large), ReduceOp::kSum, rank.stream)->wait();
    EXPECT_EQ(host[3], 2);
    EXPECT_EQ(large[99999], 4);
    sum->wait();
    rank.stream.synchronize();
    EXPECT_EQ(device[4], 6);
    comms[number]->barrier();
  });
}

// Sizes on both sides of what goes by letters on the host.
TEST(SharedDevice, RefusesHostMemoryAgainstTheDevices) {
  for (const std::size_t n : {std::size_t{4}, std::size_t{100000}}) {
    ThreadWorld world(2);
    auto comms = group_of_all(world, "dp");
    const std::string message = suite::failure_of(world, [&](int number) {
      Rank rank(world, number, DeviceKind::kCuda);
      std::vector<float> x(n);
      comms[number]
          ->all_reduce(number == 0 ? suite::view(x) : on_device(x), ReduceOp::kSum, rank.stream)
          ->wait();
    });
    EXPECT_THAT(message, HasSubstr("does not match: rank 0 asks for all_reduce(sum) fp32["));
    EXPECT_THAT(message, HasSubstr("bytes), rank 1 for all_reduce(sum)"));
    EXPECT_THAT(message, HasSubstr("bytes of a GPU)"));
  }
}

TEST(SharedDevice, RefusesTheDeviceWhereNoneIsShared) {
  ThreadWorld world(1);
  auto comms = group_of_all(world, "dp");
  QueueStream stream;
  std::vector<float> x(4);
  EXPECT_THROW(comms[0]->all_reduce(on_device(x), ReduceOp::kSum, stream), ShapeError);
}

TEST(SharedDevice, TimeOutNamesWhoIsMissing) {
  ThreadWorld world(2, std::chrono::milliseconds(100), std::chrono::milliseconds(100));
  auto comms = group_of_all(world, "pp");
  const std::string message = suite::failure_of(world, [&](int number) {
    Rank rank(world, number, DeviceKind::kCuda);
    std::vector<float> x(4);
    if (number == 1) comms[1]->receive(on_device(x), 0, rank.stream)->wait();
  });
  EXPECT_THAT(message,
              HasSubstr("pp group (ranks 0, 1): receive fp32[4] (16 bytes of a GPU); rank 0 never arrived"));
}

// A device that fails takes every rank down instead of leaving them to wait.
TEST(SharedDevice, AFailureOfTheDeviceEndsAllRanks) {
  struct Broken final : DeviceTransfer {
    void copy(void*, const void*, std::size_t, Stream&) override { throw DeviceError("the GPU fell off"); }
    void reduce(DType, bool, std::span<const void* const>, std::span<void* const>, std::int64_t,
                Stream&) override {
      throw DeviceError("the GPU fell off");
    }
  } broken;
  ThreadWorld world(3);
  auto comms = group_of_all(world, "dp");
  const std::string message = suite::failure_of(world, [&](int number) {
    QueueStream side, stream;
    world.share_device(number, {DeviceKind::kHost, &broken, &side});
    std::vector<float> x(100);
    comms[number]->all_reduce(suite::view(x), ReduceOp::kSum, stream)->wait();
  });
  EXPECT_THAT(message, HasSubstr("the GPU fell off"));
  EXPECT_THAT(world.failure(), HasSubstr("the GPU fell off"));
}

}  // namespace
}  // namespace stoa::comm
