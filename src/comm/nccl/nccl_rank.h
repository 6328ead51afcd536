// A rank's GPU as a member of NCCL communicators: the streams of its communication, and a watch thread that
// checks the operations in flight for errors and timeouts.
//
// All collectives of a rank run on one stream, in the order of their calls, whatever their group: ranks that
// call in the same order cannot deadlock. Sends and receives have a communicator and a stream per route,
// since they block until the peer takes part, in an order of its own.
//
// If the stream that asks is recording, the operations become part of the graph. NCCL keeps a communicator
// alive until no graph holds its operations: graphs are destroyed before communicators are closed or aborted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/nccl_api.h"
#include "device/device_transfer.h"
#include "device/native_stream.h"

namespace stoa::comm {

// Two members of a group; the first sends tensors to the second.
struct Route {
  int from = 0, to = 0;

  friend bool operator==(const Route&, const Route&) = default;
  friend auto operator<=>(const Route&, const Route&) = default;
};

class NcclRank final : public RecordingCompanion {
 public:
  // The device and streams that ask for operations outlive it. An operation that has not ended `timeout`
  // after its call fails, by its name. `others`: why another rank of this process is down, empty while none
  // is; asked by the watch's thread.
  NcclRank(NcclApi api, SharableDevice& device, std::chrono::milliseconds timeout,
           std::function<std::string()> others = {});
  ~NcclRank() override;
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  const NcclApi& api() const { return api_; }
  DeviceKind memory() const { return device_.kind(); }
  Stream& collectives() { return *collectives_; }
  std::unique_ptr<Stream> make_stream() { return device_.create_urgent_stream(); }

  // CommError "tp group of rank 0: all_reduce …: NCCL: unhandled system error" where `status` is no success.
  void check(int status, const std::string& what) const;
  // CommError with the first failure that the watch found.
  void throw_if_failed() const;
  // Called when a rank fails, before it frees memory that pending work uses: aborts work on the GPU that
  // waits for other ranks. The first failure stays the one that is reported.
  void give_up(const std::string& failure);

  // NCCL's end of a group; the watch asks it for errors until it is closed. `label`: for messages.
  void open(const std::string& label, NcclHandle handle);
  void close(NcclHandle handle);

  // An operation on a stream of this rank's, until the stream that asked for it waits for it.
  struct Operation {
    std::shared_ptr<Event> done;
    Stream& asker;
    const bool recorded;  // `done` is an event of a recording, which the host must not ask
    bool ordered = false;
    // Later work of the asker comes after the operation.
    void order() {
      if (!ordered) asker.wait(*done);
      ordered = true;
    }
  };
  // `text` names the operation that is complete when `done` is ready. The watch thread checks that it
  // completes in time, or that the recording of which it is a part does.
  std::shared_ptr<Operation> submitted(std::string text, std::shared_ptr<Event> done, Stream& asker);

  void join(Stream& recorder) override;
  void started(Stream& recorder) override;

 private:
  struct Link {
    std::string label;
    NcclHandle handle;
  };
  struct Watched {
    std::string text;
    std::shared_ptr<Event> done;
    std::chrono::steady_clock::time_point begin;
  };
  using Lock = std::unique_lock<std::mutex>;
  void watch(std::string text, std::shared_ptr<Event> done);
  void look(Lock& lock);
  void fail_all(std::string failure, Lock& lock);
  void drop_recordings();

  const NcclApi api_;
  SharableDevice& device_;
  const std::chrono::milliseconds timeout_;
  const std::function<std::string()> others_;
  const std::unique_ptr<Stream> collectives_;

  // Used by the rank's own thread alone.
  std::vector<std::shared_ptr<Operation>> outstanding_;
  std::set<NativeStream*> recorders_;
  std::string first_recorded_;  // of the recording that is under way
  int recorded_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::vector<Link> links_;
  std::list<Watched> watched_;
  std::string failure_;
  std::jthread watch_;
};

// A communicator that uses NCCL for tensors on the GPU, and `host` for tensors in host memory and for
// barriers. Collective over the group, with the same `routes` on all members; each route is one
// direction between two members. A transfer without a route is an InternalError. NCCL adds in an order
// of its own: sums are reproducible from run to run on the same machines, but differ between layouts of
// the ranks.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRank> rank,
                                                     std::unique_ptr<Communicator> host,
                                                     std::span<const Route> routes);

}  // namespace stoa::comm
