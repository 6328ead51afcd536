// One rank's end of a group of processes. Reductions are our own, over messages, in group-rank order: their
// results are those of threads, bit for bit. An event that is dropped before it is complete waits, or
// withdraws when an exception is passing.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/arguments.h"
#include "comm/communicator.h"

namespace stoa::comm {

class ProcessWorld;
class ProcessOperation;

class ProcessCommunicator final : public Communicator {
 public:
  // `group`: its number, as in ProcessWorld::create().
  ProcessCommunicator(ProcessWorld& world, const std::string& label, std::vector<int> ranks, int member,
                      int group);

  int size() const override { return static_cast<int>(ranks_.size()); }
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
  enum Kind : int { kCollective, kTransfer };

  Caller caller() const { return {label(), size(), member_}; }
  std::shared_ptr<ProcessOperation> begin(const char* name, TensorView view, Kind kind);
  std::unique_ptr<Event> start(std::shared_ptr<ProcessOperation> operation);
  // Elements [from, to) of `view` are this rank's to reduce; `others` holds the members' contributions to
  // them, one after the other, this rank's left out.
  void reduce(const TensorView& view, std::int64_t from, std::int64_t to, const std::byte* others,
              ReduceOp op, void* out) const;

  ProcessWorld& world_;
  const std::vector<int> ranks_;
  const int member_;
  const int group_;
  std::string text_;  // "tp group (ranks 4, 5)"
  std::uint64_t collectives_ = 0;
};

}  // namespace stoa::comm
