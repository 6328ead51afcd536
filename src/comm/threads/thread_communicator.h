// The communicator of one member of a group of threads. Small collectives go by letters (thread_letter.h);
// others copy directly between the members' tensors (contiguous, in host memory or on the device that the
// world shares). Destroying an incomplete event waits, or withdraws while an exception propagates.
// For tensors on a device, an event's wait() blocks the host until all members have posted, and makes later
// work on the asker's stream wait for the device.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/arguments.h"
#include "comm/communicator.h"
#include "comm/threads/letter_exchange.h"
#include "comm/threads/thread_group.h"

namespace stoa::comm {

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int member);

  int size() const override { return group_.size(); }
  int rank() const override { return member_; }
  std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) override;
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows, TensorView out,
                                      std::span<const std::int64_t> receive_rows, Stream& stream) override;
  std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) override;
  std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) override;
  std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) override;
  void barrier() override;

 private:
  std::unique_ptr<Event> collective(OperationKind kind, ReduceOp op, int root, ThreadPart part,
                                    Stream& stream);
  // `stream`: where the tensors' device works; null for host memory.
  std::unique_ptr<Event> post(ThreadGroup::Key key, OperationKind kind, ReduceOp op, int root,
                              std::vector<int> ranks, int index, ThreadPart part, Stream* stream);
  std::unique_ptr<Event> transfer(TensorView in, TensorView out, int source, int destination,
                                  std::uint64_t number, Stream& stream);
  Caller caller() const { return {label(), size(), member_, side().memory}; }
  const DeviceSide& side() const { return group_.world().side(group_.world_rank(member_)); }

  ThreadGroup& group_;
  const int member_;
  LetterExchange letters_;
  std::vector<std::uint64_t> sent_, received_;  // per peer
};

}  // namespace stoa::comm
