// A world whose ranks are threads of one process and share memory. Created up front and passed by reference;
// there is no global state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_side.h"
#include "comm/wait_chain.h"

namespace stoa::comm {

class ThreadGroup;

class ThreadWorld {
 public:
  // A wait longer than `timeout` fails the world and names the rank at fault: the ranks that are waited for
  // are asked what they wait for, then those; one that has not answered after `answer` (answer_time()) is at
  // fault. ConfigError when size < 1.
  explicit ThreadWorld(int size, std::chrono::milliseconds timeout = std::chrono::minutes(10),
                       std::optional<std::chrono::milliseconds> answer = {});
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

  // Runs `body` while other ranks wait for this one: they keep waiting, however long it takes.
  void apart(int rank, const std::string& text, const std::function<void()>& body);

  // For waiting ranks, called by ThreadGroup. A rank that waits polls inquiries(); when it has changed, it
  // answers what it waits for.
  std::uint64_t inquiries() const { return inquiries_.load(); }
  void answer(int rank, WaitState state);
  // Why rank `rank` is held up; none if its wait is over or worth continuing.
  std::optional<std::string> inquire(int rank, const std::function<WaitState()>& state,
                                     const std::function<bool()>& over);
  // Takes every rank down with this message.
  [[noreturn]] void fail_all(const std::string& failure);

  // Runs body(rank) on one thread per rank and joins them. When a rank throws, the others are aborted; the
  // exception that came first is rethrown here.
  void run(const std::function<void(int)>& body);

 private:
  const int size_;
  const std::chrono::milliseconds timeout_, answer_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
  std::vector<DeviceSide> sides_;  // per rank, and used by it alone
  std::string failure_;
  std::atomic<bool> aborted_{false};

  struct Answer {
    std::uint64_t inquiry = 0;  // that it answers, and those before
    WaitState state = {};
  };
  std::atomic<std::uint64_t> inquiries_{0};
  std::mutex answers_mutex_;
  std::vector<Answer> answers_;  // by rank
  std::vector<std::optional<std::string>> works_;
};

}  // namespace stoa::comm
