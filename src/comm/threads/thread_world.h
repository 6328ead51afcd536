// The ranks of one process: threads that share memory. Created up front, handed down by reference; holds no
// global state.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_side.h"

namespace stoa::comm {

class ThreadGroup;

class ThreadWorld {
 public:
  // A wait longer than `timeout` fails the world by name of what is missing. ConfigError when size < 1.
  explicit ThreadWorld(int size, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // One communicator per member of `ranks` (distinct world ranks), in that order, labelled "<label> group of
  // rank <r>". Each is then used by its own rank's thread alone. The world outlives them.
  std::vector<std::unique_ptr<Communicator>> create(const std::string& label, std::span<const int> ranks);

  // Tensors on the device that the ranks share are moved there; without it, host memory alone. Called by the
  // rank's own thread before its first operation; `side` lives as long as the rank's operations.
  void share_device(int rank, const DeviceSide& side) { sides_[rank] = side; }
  const DeviceSide& side(int rank) const { return sides_[rank]; }

  // Takes every rank down: whoever waits or calls from now on throws CommError with the first failure's
  // message.
  void abort(int rank, const std::string& message);
  bool aborted() const { return aborted_.load(); }
  std::string failure() const;  // the first failure's message, with its rank; empty while there is none
  void throw_if_aborted() const;

  // Runs body(rank) on one thread per rank and joins them. The first rank that throws aborts the others; its
  // exception is rethrown here.
  void run(const std::function<void(int)>& body);

 private:
  const int size_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
  std::vector<DeviceSide> sides_;  // per rank, and used by it alone
  std::string failure_;
  std::atomic<bool> aborted_{false};
};

}  // namespace stoa::comm
