// The group of one rank: collectives copy or do nothing, so that one rank runs the same code as many.
#pragma once

#include "comm/communicator.h"

namespace stoa::comm {

class NullCommunicator final : public Communicator {
 public:
  NullCommunicator(std::string label, Device& device) : Communicator(std::move(label)), device_(device) {}

  int size() const override { return 1; }
  int rank() const override { return 0; }
  std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) override;
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows, TensorView out,
                                      std::span<const std::int64_t> receive_rows, Stream& stream) override;
  std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) override;
  std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) override;
  std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) override;
  void barrier() override {}

 private:
  std::unique_ptr<Event> copy(TensorView in, TensorView out, Stream& stream);

  Device& device_;
};

}  // namespace stoa::comm
