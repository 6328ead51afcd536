// Communicators by NCCL, on functions of our own in its place: they meet as its kernels do, on streams whose
// work is done later, refuse what it refuses, and compute on the host in the order of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "comm/communicator_suite.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/queue_device.h"
#include "comm/rank_order_reduce.h"
#include "comm/threads/thread_world.h"
#include "device/native_stream.h"

namespace stoa::comm {
namespace {

using suite::QueueStream;
using testing::HasSubstr;

class NativeQueue final : public NativeStream {
 public:
  std::unique_ptr<Event> record() override { return queue_.record(); }
  void wait(const Event& event) override { queue_.wait(event); }
  void synchronize() override { queue_.synchronize(); }
  void* native() override { return &queue_; }
  void begin_recording() override {}
  void end_recording() override {}

 private:
  QueueStream queue_;
};

class QueueDevice final : public suite::QueueDevice {
 public:
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<NativeQueue>(); }
  std::unique_ptr<Stream> create_urgent_stream() override {
    ++urgent;
    return create_stream();
  }
  int urgent = 0;
};

}  // namespace
}  // namespace stoa::comm

// A member's end, as the library has it.
struct ncclComm {
  struct Group {
    int size = 0;
    std::mutex mutex;
    std::condition_variable changed;
    // Operations by number: who has come with what, and how many are through.
    struct Round {
      std::vector<const void*> in;
      std::vector<void*> out;
      int came = 0, left = 0;
    };
    std::map<std::uint64_t, Round> rounds;
    // Transfers between two members that one of them has come to.
    std::map<std::pair<int, int>, std::deque<std::pair<const void*, bool*>>> offers;
    bool aborted = false;
  };
  std::shared_ptr<Group> group;
  int rank = 0;
  std::atomic<std::uint64_t> next = 0;
  std::atomic<int> error = 0;
};

namespace stoa::comm {
namespace {

std::mutex fake_mutex;
std::map<std::string, std::shared_ptr<ncclComm::Group>> fake_groups;
std::set<NcclHandle> fake_open;
std::map<std::uint64_t, std::vector<std::string>> fake_calls;  // by stream
int fake_ids = 0;

struct Fake {
  Fake() {
    const std::lock_guard lock(fake_mutex);
    fake_groups.clear();
    fake_calls.clear();
  }
  ~Fake() { EXPECT_TRUE(fake_open.empty()) << "a communicator was left open"; }
};

DType dtype_of(NcclType type) {
  const std::map<NcclType, DType> types{{NcclType::kU8, DType::kU8},    {NcclType::kI32, DType::kI32},
                                        {NcclType::kI64, DType::kI64},  {NcclType::kF16, DType::kF16},
                                        {NcclType::kF32, DType::kF32},  {NcclType::kF64, DType::kF64},
                                        {NcclType::kBF16, DType::kBF16}};
  return types.at(type);
}

thread_local int fake_depth = 0;
thread_local std::map<QueueStream*, std::vector<std::function<void()>>> fake_sends, fake_receives;

int put(NcclHandle comm, void* stream, const char* name, std::function<void()> work) {
  {
    const std::lock_guard lock(fake_mutex);
    fake_calls[reinterpret_cast<std::uint64_t>(stream)].push_back(name);
    if (stream == nullptr || !fake_open.contains(comm)) return 4;  // ncclInvalidArgument
  }
  static_cast<QueueStream*>(stream)->submit(std::move(work));
  return kNcclSuccess;
}

// All members meet in the order of their calls; the last one computes.
int meet_in(NcclHandle comm, void* stream, const char* name, const void* in, void* out,
            std::function<void(ncclComm::Group::Round&)> compute) {
  return put(comm, stream, name, [=, group = comm->group, rank = comm->rank, number = comm->next++] {
    std::unique_lock lock(group->mutex);
    auto& round = group->rounds[number];
    round.in.resize(static_cast<std::size_t>(group->size));
    round.out.resize(static_cast<std::size_t>(group->size));
    round.in[rank] = in;
    round.out[rank] = out;
    if (++round.came == group->size) compute(round);
    group->changed.notify_all();
    group->changed.wait(lock, [&] { return round.came == group->size || group->aborted; });
    if (++round.left == group->size) group->rounds.erase(number);
  });
}

NcclApi fake_api() {
  NcclApi api;
  api.version = [](int* version) { return *version = 22809, 0; };
  api.unique_id = [](NcclId* id) {
    const std::lock_guard lock(fake_mutex);
    std::snprintf(id->bytes, sizeof id->bytes, "id %d", fake_ids++);
    return 0;
  };
  api.init = [](NcclHandle* comm, int size, NcclId id, int rank) {
    const std::lock_guard lock(fake_mutex);
    auto& group = fake_groups[id.bytes];
    if (!group) group = std::make_shared<ncclComm::Group>();
    group->size = size;
    *comm = new ncclComm{group, rank, {}, {}};
    fake_open.insert(*comm);
    return 0;
  };
  api.destroy = [](NcclHandle comm) {
    const std::lock_guard lock(fake_mutex);
    fake_open.erase(comm);
    delete comm;
    return 0;
  };
  api.abort = [](NcclHandle comm) {
    const std::lock_guard lock(fake_mutex);
    {
      const std::lock_guard group_lock(comm->group->mutex);
      comm->group->aborted = true;
      comm->group->changed.notify_all();
    }
    fake_open.erase(comm);
    delete comm;
    return 0;
  };
  api.async_error = [](NcclHandle comm, int* status) { return *status = comm->error, 0; };
  api.status_name = [](int status) { return status == 6 ? "remote process exited" : "some status"; };
  api.group_start = [] { return ++fake_depth, 0; };
  // Sends and receives of one group stand beside each other.
  api.group_end = [] {
    if (--fake_depth > 0) return 0;
    for (auto& [stream, sends] : fake_sends)
      stream->submit([sends = std::move(sends), receives = std::move(fake_receives[stream])] {
        for (const auto& work : sends) work();
        for (const auto& work : receives) work();
      });
    fake_sends.clear();
    fake_receives.clear();
    return 0;
  };
  api.all_reduce = [](const void* in, void* out, std::size_t count, NcclType type, NcclReduce op,
                      NcclHandle comm, void* stream) {
    return meet_in(comm, stream, "all_reduce", in, out, [=](auto& round) {
      reduce_in_rank_order(dtype_of(type), op == NcclReduce::kSum ? ReduceOp::kSum : ReduceOp::kMax, round.in,
                           round.out, static_cast<std::int64_t>(count));
    });
  };
  api.all_gather = [](const void* in, void* out, std::size_t count, NcclType type, NcclHandle comm,
                      void* stream) {
    return meet_in(comm, stream, "all_gather", in, out, [=](auto& round) {
      const std::size_t bytes = count * size_of(dtype_of(type));
      for (void* to : round.out)
        for (std::size_t m = 0; m < round.in.size(); ++m)
          std::memmove(static_cast<std::byte*>(to) + m * bytes, round.in[m], bytes);
    });
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t count, NcclType type, NcclReduce op,
                          NcclHandle comm, void* stream) {
    return meet_in(comm, stream, "reduce_scatter", in, out, [=](auto& round) {
      if (op != NcclReduce::kSum) return;
      const std::size_t bytes = count * size_of(dtype_of(type));
      for (std::size_t m = 0; m < round.in.size(); ++m) {
        std::vector<const void*> parts;
        for (const void* from : round.in) parts.push_back(static_cast<const std::byte*>(from) + m * bytes);
        void* const outputs[] = {round.out[m]};
        reduce_in_rank_order(dtype_of(type), ReduceOp::kSum, parts, outputs,
                             static_cast<std::int64_t>(count));
      }
    });
  };
  api.broadcast = [](const void* in, void* out, std::size_t count, NcclType type, int root, NcclHandle comm,
                     void* stream) {
    return meet_in(comm, stream, "broadcast", in, out, [=](auto& round) {
      for (void* to : round.out)
        if (to != round.in[root]) std::memcpy(to, round.in[root], count * size_of(dtype_of(type)));
    });
  };
  // A send ends when it was taken.
  api.send = [](const void* data, std::size_t, NcclType, int peer, NcclHandle comm, void* stream) {
    auto taken = std::make_shared<bool>(false);
    const auto offer = [=, group = comm->group, from = comm->rank] {
      const std::lock_guard lock(group->mutex);
      group->offers[{from, peer}].push_back({data, taken.get()});
      group->changed.notify_all();
    };
    const auto end = [=, group = comm->group] {
      std::unique_lock lock(group->mutex);
      group->changed.wait(lock, [&] { return *taken || group->aborted; });
    };
    if (fake_depth == 0) return put(comm, stream, "send", [=] { offer(), end(); });
    fake_sends[static_cast<QueueStream*>(stream)].push_back(offer);
    fake_receives[static_cast<QueueStream*>(stream)].push_back(end);
    return 0;
  };
  api.receive = [](void* data, std::size_t count, NcclType type, int peer, NcclHandle comm, void* stream) {
    const auto take = [=, group = comm->group, me = comm->rank] {
      std::unique_lock lock(group->mutex);
      auto& offers = group->offers[{peer, me}];
      group->changed.wait(lock, [&] { return !offers.empty() || group->aborted; });
      if (offers.empty()) return;
      std::memcpy(data, offers.front().first, count * size_of(dtype_of(type)));
      *offers.front().second = true;
      offers.pop_front();
      group->changed.notify_all();
    };
    if (fake_depth == 0) return put(comm, stream, "receive", take);
    // In front of the ends of sends.
    auto& works = fake_receives[static_cast<QueueStream*>(stream)];
    works.insert(works.begin(), take);
    fake_sends[static_cast<QueueStream*>(stream)];
    return 0;
  };
  return api;
}

std::vector<int> ranks_to(int size) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}

// body(communicators of the labels, device, the rank's own stream) on each rank, a thread with a device of
// its own.
using Ends = std::vector<std::unique_ptr<Communicator>>;
void run_ranks(int size, const std::vector<std::string>& labels, std::chrono::milliseconds timeout,
               const std::function<void(Ends&, QueueDevice&, Stream&)>& body) {
  Fake fake;
  ThreadWorld world(size, std::chrono::seconds(60));
  std::vector<Ends> hosts(static_cast<std::size_t>(size));
  for (const std::string& label : labels) {
    auto ends = world.create(label, ranks_to(size));
    for (int r = 0; r < size; ++r) hosts[r].push_back(std::move(ends[r]));
  }
  world.run([&](int rank) {
    QueueDevice device;
    const auto stream = device.create_stream();
    auto nccl = std::make_shared<NcclRank>(fake_api(), device, timeout);
    Ends ends;
    for (auto& host : hosts[rank]) ends.push_back(make_nccl_communicator(nccl, std::move(host), true));
    body(ends, device, *stream);
  });
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
    run_ranks(size, {"tp"}, std::chrono::seconds(60), [](Ends& ends, QueueDevice&, Stream& stream) {
      OnDevice comm(*ends[0]);
      for (const bool delays : {false, true}) {
        suite::collectives<float>(comm, 1025, delays, stream);
        suite::collectives<bf16>(comm, 7, delays, stream);
        suite::collectives<std::int64_t>(comm, 64, delays, stream);
      }
    });
}

TEST(NcclCommunicator, TensorsOfTheHostGoByTheHost) {
  run_ranks(2, {"tp"}, std::chrono::seconds(60), [](Ends& ends, QueueDevice&, Stream& stream) {
    suite::collectives<double>(*ends[0], 100, false, stream);
  });
  EXPECT_TRUE(fake_calls.empty());
}

TEST(NcclCommunicator, GroupsShareAStreamAndTransfersHaveTheirs) {
  run_ranks(3, {"tp", "dp"}, std::chrono::seconds(60), [](Ends& ends, QueueDevice& device, Stream& stream) {
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
  for (const auto& [stream, calls] : fake_calls)
    if (calls == std::vector<std::string>(4, "all_reduce")) ++shared;
  EXPECT_EQ(shared, 3) << "all groups of a rank on one stream";
}

// The rank's next call, or wait, says what the watch has found.
std::string failure_of(Communicator& comm, Stream& stream) {
  std::vector<float> x(8);
  for (int k = 0; k < 100; ++k) try {
      comm.all_reduce(TensorView(x.data(), DType::kF32, {8}, DeviceKind::kCuda), ReduceOp::kSum, stream)
          ->wait();
      stream.synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } catch (const CommError& error) {
      return error.what();
    }
  return "no failure";
}

TEST(NcclCommunicator, AHangIsToldByItsName) {
  std::string told;
  run_ranks(2, {"tp"}, std::chrono::milliseconds(300), [&](Ends& ends, QueueDevice&, Stream& stream) {
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
  run_ranks(2, {"tp"}, std::chrono::seconds(60), [&](Ends& ends, QueueDevice&, Stream& stream) {
    if (ends[0]->rank() == 0) {
      {
        const std::lock_guard lock(fake_mutex);
        for (const NcclHandle comm : fake_open) comm->error = 6;
      }
      told = failure_of(*ends[0], stream);
    }
    ends[0]->barrier();
  });
  EXPECT_THAT(told, HasSubstr("tp group of rank 0: NCCL: remote process exited"));
}

TEST(NcclCommunicator, TransfersGoToNeighbours) {
  run_ranks(4, {"dp"}, std::chrono::seconds(60), [](Ends& ends, QueueDevice&, Stream& stream) {
    float x = 0;
    EXPECT_THAT(
        [&] {
          ends[0]->send(TensorView(&x, DType::kF32, {1}, DeviceKind::kCuda), (ends[0]->rank() + 2) % 4,
                        stream);
        },
        testing::ThrowsMessage<CommError>(HasSubstr("are no neighbours of a ring")));
  });
}

}  // namespace
}  // namespace stoa::comm
