#include "train/launch.h"

#include <gmock/gmock.h>

#include <atomic>
#include <numeric>

#include "comm/nccl/fake_nccl.h"

namespace stoa::train {
namespace {

using comm::suite::QueueStream;

TEST(Launch, ThreadsShareTheirDevice) {
  for (const bool check : {false, true}) {
    Launch launch;
    if (launch.kind() != "threads") GTEST_SKIP() << "in a job of processes";
    const grid::RankGrid grid({2, 1, 1, 2, 1});
    std::atomic<int> right = 0;
    launch.run(grid, {std::chrono::minutes(10), check}, [&](Seat& seat) {
      comm::suite::QueueDevice gpu;
      const auto stream = gpu.create_stream();
      const parallel::ParallelContext context = seat.context(gpu);
      std::vector<float> x(1000);
      static_cast<QueueStream&>(*stream).submit(
          [&] { std::fill(x.begin(), x.end(), static_cast<float>(seat.rank)); });
      TensorView view(x.data(), DType::kF32, {1000}, DeviceKind::kCuda);
      for (const auto axis : {parallel::Axis::kTensor, parallel::Axis::kData})
        context.along(axis).all_reduce(view, comm::ReduceOp::kSum, *stream)->wait();
      stream->synchronize();
      if (x[0] == 6 && x[999] == 6) ++right;
      context.along(parallel::Group::kWorld).barrier();
    });
    EXPECT_EQ(right, 4);
  }
}

// A rank's GPU is that of its place on the host, as long as there are so many.
void run_on_gpus(int gpus, const std::function<void(Seat&, Device&, parallel::ParallelContext)>& body) {
  Launch launch;
  LaunchOptions options;
  options.timeout = std::chrono::minutes(10);
  options.nccl = comm::suite::FakeNccl::api;
  launch.run(grid::RankGrid({2, 1, 1, 2, 1}), options, [&](Seat& seat) {
    comm::suite::NativeQueueDevice gpu(fmt::format("bus {}", seat.place_on_host % gpus));
    body(seat, gpu, seat.context(gpu));
  });
}

TEST(Launch, ThreadsHaveAGpuEachWhereThereAreAsMany) {
  if (Launch().kind() != "threads") GTEST_SKIP() << "in a job of processes";
  const comm::suite::FakeNccl fake;
  std::atomic<int> right = 0;
  run_on_gpus(4, [&](Seat& seat, Device& gpu, parallel::ParallelContext context) {
    const auto stream = gpu.create_stream();
    auto x = static_cast<float>(seat.rank);
    const TensorView view(&x, DType::kF32, {1}, DeviceKind::kCuda);
    for (const auto axis : {parallel::Axis::kTensor, parallel::Axis::kData})
      context.along(axis).all_reduce(view, comm::ReduceOp::kSum, *stream)->wait();
    stream->synchronize();
    if (x == 6) ++right;
    context.along(parallel::Group::kWorld).barrier();
  });
  EXPECT_EQ(right, 4);
  EXPECT_FALSE(comm::suite::FakeNccl::calls.empty());
}

TEST(Launch, ThreadsDoNotShareSomeGpus) {
  if (Launch().kind() != "threads") GTEST_SKIP() << "in a job of processes";
  EXPECT_THAT([] { run_on_gpus(3, [](Seat&, Device&, const parallel::ParallelContext&) {}); },
              testing::ThrowsMessage<Error>(::testing::HasSubstr("4 ranks that are threads on 3 GPUs")));
}

// The others' GPUs wait for one that fails: neither they nor it hang.
TEST(Launch, AFailureEndsTheRanksOfAllGpus) {
  if (Launch().kind() != "threads") GTEST_SKIP() << "in a job of processes";
  const comm::suite::FakeNccl fake;
  const auto run = [] {
    run_on_gpus(4, [](Seat& seat, Device& gpu, const parallel::ParallelContext& context) {
      const auto stream = gpu.create_stream();
      float x = 0;
      const TensorView view(&x, DType::kF32, {1}, DeviceKind::kCuda);
      try {
        if (seat.rank == 3) {  // what it has asked for waits for a rank that never comes
          auto data = context.along(parallel::Axis::kData).all_reduce(view, comm::ReduceOp::kSum, *stream);
          fail<ConfigError>("a mistake");
        }
        context.along(parallel::Axis::kTensor).all_reduce(view, comm::ReduceOp::kSum, *stream)->wait();
        stream->synchronize();
        context.along(parallel::Group::kWorld).barrier();
      } catch (const std::exception& error) {
        seat.on_failure(error.what());
        throw;
      }
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<Error>(::testing::HasSubstr("rank 3 failed: a mistake")));
}

TEST(Launch, OneProcessHasNobodyToAgreeWith) {
  Launch().agree("configuration", []() -> std::string {
    ADD_FAILURE() << "a text for nobody";
    return {};
  });
}

}  // namespace
}  // namespace stoa::train
