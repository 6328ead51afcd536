// Collective communication within one group of ranks, ordered on a stream; completion is seen through events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace stoa::comm {

enum class ReduceOp : std::uint8_t { kSum, kMax };

class Communicator {
 public:
  explicit Communicator(std::string label) : label_(std::move(label)) {}
  virtual ~Communicator() = default;

  const std::string& label() const { return label_; }  // for messages: "tp group of rank 5"
  virtual int size() const = 0;
  virtual int rank() const = 0;

  // Each call returns at once; `data` may be used again when the event is ready. Reductions add in group-rank
  // order.
  virtual std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) = 0;
  // out is size() times in along dimension 0.
  virtual std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) = 0;
  virtual std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) = 0;
  virtual std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) = 0;
  // Rows per peer.
  virtual std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows,
                                              TensorView out, std::span<const std::int64_t> receive_rows,
                                              Stream& stream) = 0;
  virtual std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) = 0;
  virtual std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) = 0;
  virtual std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) = 0;
  virtual void barrier() = 0;

 private:
  std::string label_;
};

}  // namespace stoa::comm
