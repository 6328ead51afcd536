// Communicators by NCCL, on functions of our own in its place (comm/nccl/fake_nccl.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "comm/check/check_communicator.h"
#include "comm/communicator_suite.h"
#include "comm/nccl/fake_nccl.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/queue_device.h"
#include "comm/threads/thread_world.h"

namespace stoa::comm {
namespace {

using suite::FakeNccl;
using suite::NativeQueue;
using suite::NativeQueueDevice;
using ::testing::HasSubstr;

std::vector<int> ranks_to(int size) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}

// Neighbours of a ring, both ways.
std::vector<Route> ring_of(int size) {
  std::vector<Route> routes;
  for (int m = 0; m < size && size > 1; ++m) {
    routes.push_back({m, (m + 1) % size});
    if (size > 2) routes.push_back({(m + 1) % size, m});
  }
  return routes;
}

// body(communicators of the labels, device, the rank's own stream) on each rank, a thread with a device of
// its own.
using Ends = std::vector<std::unique_ptr<Communicator>>;
void run_ranks(int size, const std::vector<std::string>& labels, std::chrono::milliseconds timeout,
               const std::function<void(Ends&, NativeQueueDevice&, Stream&)>& body,
               const std::vector<Route>& routes) {
  FakeNccl fake;
  ThreadWorld world(size);
  std::vector<Ends> hosts(static_cast<std::size_t>(size));
  for (const std::string& label : labels) {
    auto ends = world.create(label, ranks_to(size));
    for (int r = 0; r < size; ++r) hosts[r].push_back(std::move(ends[r]));
  }
  world.run([&](int rank) {
    NativeQueueDevice device;
    const auto stream = device.create_stream();
    auto nccl = std::make_shared<NcclRank>(FakeNccl::api(), device, timeout);
    Ends ends;
    for (auto& host : hosts[rank]) ends.push_back(make_nccl_communicator(nccl, std::move(host), routes));
    body(ends, device, *stream);
  });
}
void run_ranks(int size, const std::vector<std::string>& labels, std::chrono::milliseconds timeout,
               const std::function<void(Ends&, NativeQueueDevice&, Stream&)>& body) {
  run_ranks(size, labels, timeout, body, ring_of(size));
}

// Through the suite's host tensors, as though they were the device's: its memory is the host's.
class OnDevice final : public Communicator {
 public:
  explicit OnDevice(Communicator& inner) : Communicator(inner.label()), inner_(inner) {}
  int size() const override { return inner_.size(); }
  int rank() const override { return inner_.rank(); }
  std::unique_ptr<Event> all_reduce(TensorView x, ReduceOp op, Stream& s) override {
    return inner_.all_reduce(moved(x), op, s);
  }
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& s) override {
    return inner_.all_gather(moved(in), moved(out), s);
  }
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& s) override {
    return inner_.reduce_scatter(moved(in), moved(out), s);
  }
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& s) override {
    return inner_.all_to_all(moved(in), moved(out), s);
  }
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> sends, TensorView out,
                                      std::span<const std::int64_t> receives, Stream& s) override {
    return inner_.all_to_all_v(moved(in), sends, moved(out), receives, s);
  }
  std::unique_ptr<Event> broadcast(TensorView x, int root, Stream& s) override {
    return inner_.broadcast(moved(x), root, s);
  }
  std::unique_ptr<Event> send(TensorView x, int peer, Stream& s) override {
    return inner_.send(moved(x), peer, s);
  }
  std::unique_ptr<Event> receive(TensorView x, int peer, Stream& s) override {
    return inner_.receive(moved(x), peer, s);
  }
  void barrier() override { inner_.barrier(); }

 private:
  static TensorView moved(TensorView view) {
    view.device = DeviceKind::kCuda;
    return view;
  }
  Communicator& inner_;
};

TEST(NcclCommunicator, CollectivesEqualSerialComputation) {
  for (const int size : {1, 2, 3, 4})
    run_ranks(size, {"tp"}, std::chrono::minutes(10), [](Ends& ends, NativeQueueDevice&, Stream& stream) {
      OnDevice comm(*ends[0]);
      for (const bool delays : {false, true}) {
        suite::collectives<float>(comm, 1025, delays, stream);
        suite::collectives<bf16>(comm, 7, delays, stream);
        suite::collectives<std::int64_t>(comm, 64, delays, stream);
      }
    });
}

TEST(NcclCommunicator, TensorsOfTheHostGoByTheHost) {
  run_ranks(2, {"tp"}, std::chrono::minutes(10), [](Ends& ends, NativeQueueDevice&, Stream& stream) {
    suite::collectives<double>(*ends[0], 100, false, stream);
  });
  EXPECT_TRUE(FakeNccl::calls.empty());
}

TEST(NcclCommunicator, GroupsShareAStreamAndTransfersHaveTheirs) {
  run_ranks(3, {"tp", "dp"}, std::chrono::minutes(10),
            [](Ends& ends, NativeQueueDevice& device, Stream& stream) {
              EXPECT_EQ(device.urgent, 1 + 2 * 4)
                  << "one for collectives; in and out, up and down the ring of each group";
              std::vector<float> x(8), y(8);
              const auto on = [](std::vector<float>& v) {
                return TensorView(v.data(), DType::kF32, {8}, DeviceKind::kCuda);
              };
              for (int k = 0; k < 2; ++k)
                for (const auto& comm : ends) comm->all_reduce(on(x), ReduceOp::kSum, stream)->wait();
              // Two sends before the receive that the peer's sends wait for: as a pipeline that warms up.
              const int up = (ends[0]->rank() + 1) % 3, down = (ends[0]->rank() + 2) % 3;
              auto first = ends[0]->send(on(x), up, stream), second = ends[0]->send(on(x), up, stream);
              auto back = ends[0]->send(on(x), down, stream);
              ends[0]->receive(on(y), up, stream)->wait();
              ends[0]->receive(on(y), down, stream)->wait();
              ends[0]->receive(on(y), down, stream)->wait();
              first->wait(), second->wait(), back->wait();
              stream.synchronize();
            });
  int shared = 0;
  for (const auto& [stream, calls] : FakeNccl::calls)
    if (calls == std::vector<std::string>(4, "all_reduce")) ++shared;
  EXPECT_EQ(shared, 3) << "all groups of a rank on one stream";
}

// The rank's next call, or wait, says what the watch has found.
std::string failure_of(Communicator& comm, Stream& stream) {
  std::vector<float> x(8);
  for (;;) try {
      comm.all_reduce(TensorView(x.data(), DType::kF32, {8}, DeviceKind::kCuda), ReduceOp::kSum, stream)
          ->wait();
      stream.synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } catch (const CommError& error) {
      return error.what();
    }
}

TEST(NcclCommunicator, AHangIsToldByItsName) {
  std::string told;
  run_ranks(2, {"tp"}, std::chrono::milliseconds(300), [&](Ends& ends, NativeQueueDevice&, Stream& stream) {
    const Activity activity{"backward", 0, 3};
    ends[0]->follow(&activity);
    if (ends[0]->rank() == 0) told = failure_of(*ends[0], stream);
    ends[0]->barrier();
  });
  EXPECT_THAT(told, HasSubstr("tp group of rank 0: all_reduce(sum) fp32[8] (32 bytes) in backward, chunk 0, "
                              "microbatch 3 waited 0.3 s on the GPU"));
}

TEST(NcclCommunicator, AnErrorOfTheLibraryNamesTheGroup) {
  std::string told;
  run_ranks(2, {"tp"}, std::chrono::minutes(10), [&](Ends& ends, NativeQueueDevice&, Stream& stream) {
    if (ends[0]->rank() == 0) {
      {
        const std::lock_guard lock(FakeNccl::mutex);
        for (const NcclHandle comm : FakeNccl::open) comm->error = 6;
      }
      told = failure_of(*ends[0], stream);
    }
    ends[0]->barrier();
  });
  EXPECT_THAT(told, HasSubstr("tp group of rank 0: NCCL: remote process exited"));
}

TEST(NcclCommunicator, RoutesJoinMembersThatAreNoNeighbours) {
  // Two rings of two, as groups of neighbours in a context have them, and one way back to the first.
  const std::vector<Route> routes{{0, 2}, {2, 0}, {1, 3}, {3, 1}, {3, 0}};
  run_ranks(
      4, {"cp"}, std::chrono::minutes(10),
      [](Ends& ends, NativeQueueDevice& device, Stream& stream) {
        const int me = ends[0]->rank(), peer = (me + 2) % 4;
        EXPECT_EQ(device.urgent, 1 + 2 + (me % 3 == 0 ? 1 : 0)) << "no stream without a route";
        const auto on = [](float& x) { return TensorView(&x, DType::kF32, {1}, DeviceKind::kCuda); };
        auto own = static_cast<float>(me), other = -1.0f, last = -1.0f;
        auto sent = ends[0]->send(on(own), peer, stream);
        ends[0]->receive(on(other), peer, stream)->wait();
        sent->wait();
        if (me == 3) ends[0]->send(on(own), 0, stream)->wait();
        if (me == 0) ends[0]->receive(on(last), 3, stream)->wait();
        stream.synchronize();
        EXPECT_EQ(other, static_cast<float>(peer));
        if (me == 0) {
          EXPECT_EQ(last, 3.0f);
        }
        EXPECT_THAT([&] { ends[0]->receive(on(own), (me + 1) % 4, stream); },
                    testing::ThrowsMessage<InternalError>(HasSubstr("no route")));
      },
      routes);
}

// What has failed on the host must not wait for the GPU on its way out.
TEST(NcclCommunicator, AFailureEndsWhatIsUnderWay) {
  FakeNccl fake;
  ThreadWorld world(2);
  auto hosts = world.create("tp", ranks_to(2));
  std::string told;
  EXPECT_THROW(world.run([&](int rank) {
    NativeQueueDevice device;
    const auto stream = device.create_stream();
    auto nccl = std::make_shared<NcclRank>(FakeNccl::api(), device, std::chrono::minutes(10),
                                           [&world] { return world.failure(); });
    const auto comm = make_nccl_communicator(nccl, std::move(hosts[static_cast<std::size_t>(rank)]), {});
    std::vector<float> x(8);
    const TensorView view(x.data(), DType::kF32, {8}, DeviceKind::kCuda);
    if (rank == 1) fail<ConfigError>("a mistake");  // the other's operation waits for this one
    try {
      comm->all_reduce(view, ReduceOp::kSum, *stream)->wait();
      stream->synchronize();
      nccl->throw_if_failed();
    } catch (const CommError& error) {
      told = error.what();
    }
  }),
               ConfigError);
  EXPECT_THAT(told, HasSubstr("rank 1 failed: a mistake"));
}

TEST(NcclCommunicator, ARankThatFailsGivesUpItsOwn) {
  FakeNccl fake;
  ThreadWorld world(2);
  auto hosts = world.create("tp", ranks_to(2));
  world.run([&](int rank) {
    NativeQueueDevice device;
    const auto stream = device.create_stream();
    auto nccl = std::make_shared<NcclRank>(FakeNccl::api(), device, std::chrono::minutes(10));
    const auto comm = make_nccl_communicator(nccl, std::move(hosts[static_cast<std::size_t>(rank)]), {});
    std::vector<float> x(8);
    if (rank == 0) {
      auto under_way = comm->all_reduce(TensorView(x.data(), DType::kF32, {8}, DeviceKind::kCuda),
                                        ReduceOp::kSum, *stream);
      nccl->give_up("out of memory");
      stream->synchronize();
      EXPECT_THAT([&] { under_way->wait(); }, testing::ThrowsMessage<CommError>(HasSubstr("out of memory")));
    }
    comm->barrier();
  });
}

// body(communicator, stream, the rank's NCCL) on two ranks whose streams record from their second step on.
void record_on_two(std::chrono::milliseconds timeout,
                   const std::function<void(Communicator&, NativeQueue&, NcclRank&)>& body) {
  FakeNccl fake;
  ThreadWorld world(2);
  auto hosts = world.create("tp", ranks_to(2));
  world.run([&](int rank) {
    NativeQueueDevice device;
    NativeQueue stream(true);
    auto nccl = std::make_shared<NcclRank>(FakeNccl::api(), device, timeout);
    const auto comm =
        make_nccl_communicator(nccl, std::move(hosts[static_cast<std::size_t>(rank)]), ring_of(2));
    body(*comm, stream, *nccl);
  });
}

TensorView device_view(std::vector<float>& values) {
  return TensorView(values.data(), DType::kF32, {static_cast<std::int64_t>(values.size())},
                    DeviceKind::kCuda);
}

// The suite's stream has the rules of recordings; that communicators end after the graphs, the functions see.
TEST(NcclCommunicator, OperationsArePartsOfARecording) {
  record_on_two(std::chrono::minutes(10), [](Communicator& comm, NativeQueue& stream, NcclRank& nccl) {
    std::vector<float> sum{1}, sent{static_cast<float>(comm.rank())}, received{-1}, late{1};
    const int peer = 1 - comm.rank();
    std::unique_ptr<Event> kept;  // from a step to the next one
    for (int step = 0; step < 4; ++step) {
      stream.begin_recording();
      if (kept) kept->wait();
      comm.all_reduce(device_view(sum), ReduceOp::kSum, stream)->wait();
      auto sending = comm.send(device_view(sent), peer, stream);
      comm.receive(device_view(received), peer, stream)->wait();
      EXPECT_TRUE(step == 0 || sending->ready());
      sending->wait();
      kept = comm.all_reduce(device_view(late), ReduceOp::kSum, stream);
      stream.end_recording();
      stream.synchronize();
      EXPECT_EQ(sum[0], static_cast<float>(2 << step));
      EXPECT_TRUE(step == 0 || late[0] == sum[0]) << "what nobody waited for is over when the step is";
      EXPECT_EQ(received[0], static_cast<float>(peer));
      std::this_thread::sleep_for(std::chrono::milliseconds(step == 1 ? 250 : 0));  // the watch looks
    }
    EXPECT_EQ(stream.started, 3);
    // Between recordings.
    comm.all_reduce(device_view(sum), ReduceOp::kSum, stream)->wait();
    stream.synchronize();
    nccl.throw_if_failed();
  });
}

TEST(NcclCommunicator, AHangOfARecordingIsToldByItsFirstOperation) {
  std::string told;
  record_on_two(std::chrono::milliseconds(300), [&](Communicator& comm, NativeQueue& stream, NcclRank&) {
    std::vector<float> x(8);
    stream.begin_recording();
    comm.all_reduce(device_view(x), ReduceOp::kSum, stream)->wait();
    stream.end_recording();
    if (comm.rank() == 0) {
      stream.begin_recording();
      for (int k = 0; k < 2; ++k) comm.all_reduce(device_view(x), ReduceOp::kSum, stream)->wait();
      stream.end_recording();
      told = failure_of(comm, stream);
    }
    comm.barrier();
  });
  EXPECT_THAT(told, HasSubstr("a recorded step with 2 operations from tp group of rank 0: all_reduce(sum) "
                              "fp32[8] (32 bytes) on waited 0.3 s on the GPU"));
}

TEST(NcclCommunicator, ARankThatFailsGivesUpItsGraphs) {
  record_on_two(std::chrono::minutes(10), [&](Communicator& comm, NativeQueue& stream, NcclRank& nccl) {
    std::vector<float> x(8);
    for (int step = 0; step < 3; ++step) {
      stream.begin_recording();
      const auto event = comm.all_reduce(device_view(x), ReduceOp::kSum, stream);
      if (step == 2 && comm.rank() == 0) {  // the other one's waits for it
        nccl.give_up("out of memory");
        EXPECT_THAT([&] { event->wait(); }, testing::ThrowsMessage<CommError>(HasSubstr("out of memory")));
      } else {
        event->wait();
        stream.end_recording();
      }
    }
    comm.barrier();
    nccl.give_up("the other failed");
  });
}

// What is asked for and not waited for is posted before what another group is asked for later, whoever comes
// first.
TEST(NcclCommunicator, ComparedRequestsKeepTheOrderOfGroups) {
  FakeNccl fake;
  ThreadWorld world(2);
  std::vector<Ends> hosts(2), controls(2);
  for (const char* const label : {"dp", "tp"})
    for (auto* const ends : {&hosts, &controls}) {
      auto both = world.create(label, ranks_to(2));
      for (std::size_t r = 0; r < 2; ++r) (*ends)[r].push_back(std::move(both[r]));
    }
  world.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    NativeQueueDevice device;
    const auto stream = device.create_stream();
    auto nccl = std::make_shared<NcclRank>(FakeNccl::api(), device, std::chrono::minutes(10));
    Ends ends;
    for (std::size_t g = 0; g < 2; ++g)
      ends.push_back(std::make_unique<CheckCommunicator>(
          make_nccl_communicator(nccl, std::move(hosts[r][g]), {}), std::move(controls[r][g]), true));
    float x = 1, y = 1;
    const auto on = [](float& value) { return TensorView(&value, DType::kF32, {1}, DeviceKind::kCuda); };
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto first = ends[0]->all_reduce(on(x), ReduceOp::kSum, *stream);
    ends[1]->all_reduce(on(y), ReduceOp::kSum, *stream)->wait();
    first->wait();
    stream->synchronize();
    nccl->throw_if_failed();
    EXPECT_EQ(x + y, 4.0f);
  });
}

}  // namespace
}  // namespace stoa::comm
