// One rank's end of a group of threads. Small collectives go by letters; others move data straight between
// the ranks' own tensors (contiguous, host memory). An event that is dropped before it is complete waits, or
// withdraws when an exception is passing.
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
  std::unique_ptr<Event> collective(OperationKind kind, ReduceOp op, int root, ThreadPart part);
  std::unique_ptr<Event> transfer(TensorView in, TensorView out, int source, int destination,
                                  std::uint64_t number);
  Caller caller() const { return {label(), size(), member_}; }

  ThreadGroup& group_;
  const int member_;
  LetterExchange letters_;
  std::vector<std::uint64_t> sent_, received_;  // per peer
};

}  // namespace stoa::comm
