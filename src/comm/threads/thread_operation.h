// One operation of a group of threads: each member's buffers, and the tasks into which the work is divided;
// any member's thread takes the next one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_side.h"
#include "comm/operation_kind.h"

namespace stoa::comm {

// What one member brings. In a kSend, member 0 sends `in` and member 1 receives into `out`.
struct ThreadPart {
  TensorView in;
  TensorView out;
  std::vector<std::int64_t> send_rows = {};
  std::vector<std::int64_t> receive_rows = {};
  std::vector<std::int64_t> send_offsets = {};  // rows before each peer's, filled on arrival
  std::vector<std::int64_t> receive_offsets = {};
  Activity activity = {};  // of the member when it asked
  // For a DeviceOperation: the member's device, and its work submitted there before it asked.
  DeviceSide side = {};
  std::shared_ptr<const Event> submitted = {};
  bool arrived = false;
  bool left = false;  // withdrew before completion
};

class ThreadOperation {
 public:
  ThreadOperation(OperationKind kind, ReduceOp op, int root, std::vector<int> ranks);
  virtual ~ThreadOperation() = default;

  std::string_view name(int member) const;  // "all_reduce", "send" …
  // "all_reduce(sum) fp32[4]": what `member` asked for.
  std::string text(int member) const;
  // Under the group's lock, once all have arrived: how the members' requests disagree; empty if they
  // agree.
  std::string mismatch() const;
  void start();  // all have arrived and fit: divides the work

  bool started() const { return started_.load(); }
  bool done() const { return done_.load(); }
  bool claimable() const { return started() && !withdrawn_.load() && tasks_left_.load() > 0; }
  // Does shares of work until none is left, those that write member `index`'s memory first. True for the
  // caller that finished the last one.
  bool help(int index);
  // No member's memory is touched after this returns; the operation never completes.
  void withdraw();
  std::size_t bytes() const { return bytes_; }  // largest payload of a member, after start()

  const OperationKind kind;
  const ReduceOp op;
  const int root;
  const std::vector<int> ranks;   // world ranks of the members
  std::vector<ThreadPart> parts;  // written under the group's lock until started
  int arrived = 0;

 protected:
  // What a member gets of another's data, in all but reductions; empty when it gets nothing.
  struct Piece {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };
  Piece piece_between(int source, int destination) const;
  virtual void divide();  // all have arrived and fit: into tasks_ shares, in lanes_
  virtual void perform(std::int64_t task);

  std::int64_t tasks_ = 0;
  // Shares that write one member's memory lie together: `lanes_` of `tasks_ / lanes_` shares; one lane when
  // each share writes everybody's.
  int lanes_ = 1;
  std::size_t bytes_ = 0;

 private:
  std::int64_t claim(int index);  // a share that no other thread has; -1 when none is left

  std::int64_t chunk_ = 0;  // elements per share of a reduction
  std::int64_t chunks_ = 0;
  std::atomic<bool> started_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> withdrawn_{false};
  std::vector<std::atomic<std::int64_t>> next_;  // per lane
  std::atomic<std::int64_t> tasks_left_{0};      // unclaimed
  std::atomic<std::int64_t> finished_{0};
  std::atomic<int> running_{0};
};

// "rank 0 asks for …, rank 1 for …": member i of a against member j of b.
std::string differ(const ThreadOperation& a, int i, const ThreadOperation& b, int j);

}  // namespace stoa::comm
