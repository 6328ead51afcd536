// The operations of one group: those that still lack members, and the members that wait for completion.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/threads/thread_letter.h"
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
  const std::vector<int>& ranks() const { return ranks_; }  // of the world, per member
  int world_rank(int member) const { return ranks_[member]; }
  const std::string& name() const { return name_; }
  ThreadWorld& world() const { return world_; }
  int spins() const { return spins_; }  // polls of a waiting rank before it blocks
  Outbox& outbox(int member) { return outboxes_[member]; }

  // Brings `part` as member `index` of `proto`'s operation. CommError when the members' requests do not fit
  // (which takes the world down) or the world is down.
  std::shared_ptr<ThreadOperation> post(Key key, std::shared_ptr<ThreadOperation> proto, int index,
                                        ThreadPart part);
  // Blocks until the operation is done. CommError on abort and timeout; no thread touches the caller's memory
  // after that.
  void wait(ThreadOperation& operation, int index);
  bool poll(ThreadOperation& operation, int index);
  void leave(ThreadOperation& operation, int index);
  // Publishes what this member waits for, if others have asked since `answered`.
  void answer(const ThreadOperation& operation, int index, std::uint64_t& answered);

  // Blocks until `met` is true; whoever changes what `met` reads calls wake(). False: deadline passed before.
  template <class Condition>
  bool block(const Condition& met, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    ++sleepers_;  // before the first look: whoever changes something after it sees a sleeper
    const bool in_time = changed_.wait_until(lock, deadline, met);
    --sleepers_;
    return in_time;
  }
  void wake();

  // Fails the world because of a member's error: the message names the rank and the operation. Throws
  // CommError.
  [[noreturn]] void refuse(std::uint64_t number, int rank, const std::string& why);
  // Called after a wait since `begin` exceeds the world's timeout: returns if it is worth continuing to wait.
  void look_into(const std::function<WaitState()>& state, int rank,
                 std::chrono::steady_clock::time_point begin, const std::function<bool()>& over);
  // What a member waits for.
  WaitState state_of(const ThreadOperation& operation, int index);

 private:
  std::unique_lock<std::mutex> lock();

  ThreadWorld& world_;
  const std::string name_;
  const std::vector<int> ranks_;
  const int spins_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> sleepers_{0};
  std::map<Key, std::shared_ptr<ThreadOperation>> open_;
  std::deque<Outbox> outboxes_;  // per member
};

}  // namespace stoa::comm
