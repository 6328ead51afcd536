#include "train/launch.h"

#include <gmock/gmock.h>

#include <atomic>
#include <numeric>

#include "comm/queue_device.h"

namespace stoa::train {
namespace {

using comm::suite::QueueStream;

TEST(Launch, ThreadsShareTheirDevice) {
  for (const bool check : {false, true}) {
    Launch launch;
    if (launch.kind() != "threads") GTEST_SKIP() << "in a job of processes";
    const grid::RankGrid grid({2, 1, 1, 2, 1});
    std::atomic<int> right = 0;
    launch.run(grid, {std::chrono::seconds(60), check}, [&](Seat& seat) {
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

}  // namespace
}  // namespace stoa::train
