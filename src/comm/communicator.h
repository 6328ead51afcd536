// Collective communication within one group of ranks, ordered on a stream; completion is seen through events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace stoa::comm {

enum class ReduceOp : std::uint8_t { kSum, kMax };

// What a rank is doing: named when a wait fails.
struct Activity {
  std::string_view name = {};  // of static storage
  int chunk = -1, microbatch = -1;

  std::string text() const;  // " in forward, chunk 1, microbatch 3"; empty without a name
};

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

  // Where the owner records its current activity (null: nowhere). Written by the rank's own thread.
  virtual void follow(const Activity* activity) { activity_ = activity; }

 protected:
  Activity activity() const { return activity_ ? *activity_ : Activity{}; }

 private:
  std::string label_;
  const Activity* activity_ = nullptr;
};

}  // namespace stoa::comm
