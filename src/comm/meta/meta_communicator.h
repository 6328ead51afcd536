// A communicator of any size that moves nothing and counts what would move: for planning.
#pragma once

#include <array>
#include <cstdint>

#include "comm/communicator.h"
#include "comm/operation_kind.h"

namespace stoa::comm {

class MetaCommunicator final : public Communicator {
 public:
  struct Count {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;  // of this rank's input (received tensor for receive and broadcast)
  };

  MetaCommunicator(std::string label, int size, int rank);

  const Count& count(OperationKind operation) const { return counts_[static_cast<std::size_t>(operation)]; }

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) override;
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows, TensorView out,
                                      std::span<const std::int64_t> receive_rows, Stream& stream) override;
  std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) override;
  std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) override;
  std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) override;
  void barrier() override { ++counts_[static_cast<std::size_t>(OperationKind::kBarrier)].calls; }

 private:
  std::unique_ptr<Event> add(OperationKind operation, const TensorView& view, Stream& stream);

  const int size_;
  const int rank_;
  std::array<Count, kOperationNames.size()> counts_{};
};

}  // namespace stoa::comm
