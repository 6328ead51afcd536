// The meeting place of one group: operations that wait for members, and the members that wait for operations.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/threads/thread_operation.h"
#include "comm/threads/thread_world.h"

namespace stoa::comm {

class ThreadGroup {
 public:
  // Which operation: collectives by their number alone (source and destination -1), transfers by their number
  // on a channel.
  using Key = std::tuple<int, int, std::uint64_t>;

  ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  int world_rank(int member) const { return ranks_[member]; }
  const std::string& name() const { return name_; }
  ThreadWorld& world() const { return world_; }

  // Brings `part` as member `index` of `proto`'s operation. CommError when the members' requests do not fit
  // (which takes the world down) or the world is down.
  std::shared_ptr<ThreadOperation> post(Key key, std::shared_ptr<ThreadOperation> proto, int index,
                                        ThreadPart part);
  // Blocks until the operation is done. CommError on abort and time-out; then nobody touches the caller's
  // memory any more.
  void wait(ThreadOperation& operation, int index);
  bool poll(ThreadOperation& operation);
  void leave(ThreadOperation& operation, int index);
  void wake();

 private:
  std::string hang(const ThreadOperation& operation, int index) const;

  ThreadWorld& world_;
  const std::string name_;
  const std::vector<int> ranks_;
  const int spins_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<ThreadOperation>> open_;
};

}  // namespace stoa::comm
