// A rank's GPU among those that NCCL joins: the streams of its communication, and a watch over what is under
// way on them.
//
// All collectives of a rank stand on one stream, in the order of their calls, whatever group they belong to:
// ranks that call in one order cannot wait for each other crosswise. Transfers have a stream per peer and
// direction, for they wait until the peer takes them, whose order is another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/nccl_api.h"
#include "device/device_transfer.h"

namespace stoa::comm {

class NcclRank {
 public:
  // The device outlives it. An operation that has not ended `timeout` after its call fails, by its name.
  NcclRank(NcclApi api, SharableDevice& device, std::chrono::milliseconds timeout);
  ~NcclRank();
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

  // NCCL's end of a group; the watch asks it for errors until it is closed. `label`: for messages.
  void open(const std::string& label, NcclHandle handle);
  void close(NcclHandle handle);
  // `text`: the operation that is over when `done` is ready.
  void watch(std::string text, std::shared_ptr<Event> done);

 private:
  struct Link {
    std::string label;
    NcclHandle handle;
  };
  struct Operation {
    std::string text;
    std::shared_ptr<Event> done;
    std::chrono::steady_clock::time_point begin;
  };
  void look();
  void fail_all(std::string failure);

  const NcclApi api_;
  SharableDevice& device_;
  const std::chrono::milliseconds timeout_;
  const std::unique_ptr<Stream> collectives_;

  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::vector<Link> links_;
  std::list<Operation> operations_;
  std::string failure_;
  std::jthread watch_;
};

// A communicator whose tensors on the GPU go by NCCL and whose tensors in host memory, and barriers, go by
// `host`. All members of the group together; `ring`: neighbours of the group's ring send each other tensors.
// NCCL adds in an order of its own: sums are the same from run to run on the same machines, not those of
// other layouts of the ranks.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRank> rank,
                                                     std::unique_ptr<Communicator> host, bool ring);

}  // namespace stoa::comm
