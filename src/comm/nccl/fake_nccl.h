// Functions in NCCL's place, for tests: they meet as its kernels do, on streams whose work is done later,
// refuse what it refuses, and compute on the host in the order of ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "comm/nccl/nccl_api.h"
#include "comm/queue_device.h"
#include "comm/rank_order_reduce.h"
#include "comm/recording_stream.h"

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
  std::mutex mutex;
  std::vector<std::weak_ptr<void>> graphs;  // that hold it
};

namespace stoa::comm::suite {

// Waits for its own kind, and for what is done already.
class WorkQueue final : public Stream {
 public:
  void submit(std::function<void()> work) { queue_.submit(std::move(work)); }
  std::unique_ptr<Event> record() override { return queue_.record(); }
  void wait(const Event& event) override {
    if (dynamic_cast<const QueueEvent*>(&event))
      queue_.wait(event);
    else
      require<InternalError>(event.ready(), "an event of another kind is under way");
  }
  void synchronize() override { queue_.synchronize(); }

 private:
  QueueStream queue_;
};

// A stream that the functions know.
class NativeQueue final : public RecordingStream {
 public:
  explicit NativeQueue(bool records = false) : RecordingStream(std::make_unique<WorkQueue>(), records) {}
  void submit(std::function<void()> work) {
    add_work();
    static_cast<WorkQueue&>(inner()).submit(std::move(work));
  }
};

// A GPU in miniature whose streams the functions know.
class NativeQueueDevice final : public QueueDevice {
 public:
  explicit NativeQueueDevice(std::string identity = {}) : identity_(std::move(identity)) {}
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<NativeQueue>(); }
  std::unique_ptr<Stream> create_urgent_stream() override {
    ++urgent;
    return std::make_unique<NativeQueue>();
  }
  std::string identity() const override { return identity_; }

  int urgent = 0;  // streams so far

 private:
  const std::string identity_;
};

// Of one test at a time.
class FakeNccl {
 public:
  FakeNccl() {
    const std::lock_guard lock(mutex);
    groups.clear();
    calls.clear();
  }
  ~FakeNccl() { EXPECT_TRUE(open.empty()) << "a communicator was left open"; }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  static NcclApi api();

  static inline std::mutex mutex;
  static inline std::set<NcclHandle> open;
  static inline std::map<std::uint64_t, std::vector<std::string>> calls;  // by stream

 private:
  static DType dtype_of(NcclType type) {
    const std::map<NcclType, DType> types{{NcclType::kU8, DType::kU8},    {NcclType::kI32, DType::kI32},
                                          {NcclType::kI64, DType::kI64},  {NcclType::kF16, DType::kF16},
                                          {NcclType::kF32, DType::kF32},  {NcclType::kF64, DType::kF64},
                                          {NcclType::kBF16, DType::kBF16}};
    return types.at(type);
  }
  static int put(NcclHandle comm, void* stream, const char* name, std::function<void()> work) {
    {
      const std::lock_guard lock(mutex);
      calls[reinterpret_cast<std::uint64_t>(stream)].push_back(name);
      if (stream == nullptr || !open.contains(comm)) return 4;  // ncclInvalidArgument
    }
    auto& queue = *static_cast<NativeQueue*>(stream);
    hold(comm, queue);
    queue.submit(std::move(work));
    return kNcclSuccess;
  }
  static void hold(NcclHandle comm, NativeQueue& stream) {
    const std::lock_guard lock(comm->mutex);
    if (auto graph = stream.graph()) comm->graphs.push_back(std::move(graph));
  }
  // As the library: neither the end nor the abort of a communicator returns before no graph holds it. Here
  // not forever.
  static void await_graphs(NcclHandle comm) {
    const auto held = [&] {
      const std::lock_guard lock(comm->mutex);
      return std::any_of(comm->graphs.begin(), comm->graphs.end(),
                         [](const auto& graph) { return !graph.expired(); });
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (held() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(held()) << "a graph outlives the communicator that it holds";
  }
  // All members meet in the order of their calls; the last one computes.
  static int meet_in(NcclHandle comm, void* stream, const char* name, const void* in, void* out,
                     std::function<void(ncclComm::Group::Round&)> compute) {
    return put(comm, stream, name, [=, group = comm->group, rank = comm->rank, number = comm->next++] {
      std::unique_lock lock(group->mutex);
      auto& round = group->rounds[number];
      round.in.resize(static_cast<std::size_t>(group->size));
      round.out.resize(static_cast<std::size_t>(group->size));
      round.in[static_cast<std::size_t>(rank)] = in;
      round.out[static_cast<std::size_t>(rank)] = out;
      if (++round.came == group->size && !group->aborted) compute(round);
      group->changed.notify_all();
      group->changed.wait(lock, [&] { return round.came == group->size || group->aborted; });
      if (++round.left == group->size) group->rounds.erase(number);
    });
  }

  static inline std::map<std::string, std::shared_ptr<ncclComm::Group>> groups;
  static inline int ids = 0;
  static inline thread_local int depth = 0;
  static inline thread_local std::map<NativeQueue*, std::vector<std::function<void()>>> sends, receives;
};

inline NcclApi FakeNccl::api() {
  NcclApi api;
  api.version = [](int* version) { return *version = 22809, 0; };
  api.unique_id = [](NcclId* id) {
    const std::lock_guard lock(mutex);
    std::snprintf(id->bytes, sizeof id->bytes, "id %d", ids++);
    return 0;
  };
  api.init = [](NcclHandle* comm, int size, NcclId id, int rank) {
    const std::lock_guard lock(mutex);
    auto& group = groups[id.bytes];
    if (!group) group = std::make_shared<ncclComm::Group>();
    group->size = size;
    *comm = new ncclComm{group, rank, {}, {}, {}, {}};
    open.insert(*comm);
    return 0;
  };
  api.destroy = [](NcclHandle comm) {
    await_graphs(comm);
    const std::lock_guard lock(mutex);
    open.erase(comm);
    delete comm;
    return 0;
  };
  api.abort = [](NcclHandle comm) {
    {
      const std::lock_guard group_lock(comm->group->mutex);
      comm->group->aborted = true;
      comm->group->changed.notify_all();
    }
    await_graphs(comm);
    const std::lock_guard lock(mutex);
    open.erase(comm);
    delete comm;
    return 0;
  };
  api.async_error = [](NcclHandle comm, int* status) { return *status = comm->error, 0; };
  api.status_name = [](int status) { return status == 6 ? "remote process exited" : "some status"; };
  api.group_start = [] { return ++depth, 0; };
  // Sends and receives of one group stand beside each other.
  api.group_end = [] {
    if (--depth > 0) return 0;
    for (auto& [stream, works] : sends)
      stream->submit([offers = std::move(works), ends = std::move(receives[stream])] {
        for (const auto& work : offers) work();
        for (const auto& work : ends) work();
      });
    sends.clear();
    receives.clear();
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
    if (depth == 0) return put(comm, stream, "send", [=] { offer(), end(); });
    hold(comm, *static_cast<NativeQueue*>(stream));
    sends[static_cast<NativeQueue*>(stream)].push_back(offer);
    receives[static_cast<NativeQueue*>(stream)].push_back(end);
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
    if (depth == 0) return put(comm, stream, "receive", take);
    // In front of the ends of sends.
    hold(comm, *static_cast<NativeQueue*>(stream));
    auto& works = receives[static_cast<NativeQueue*>(stream)];
    works.insert(works.begin(), take);
    sends[static_cast<NativeQueue*>(stream)];
    return 0;
  };
  return api;
}

}  // namespace stoa::comm::suite
