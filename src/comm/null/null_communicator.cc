#include "comm/null/null_communicator.h"

#include <cstring>

namespace stoa::comm {

std::unique_ptr<Event> NullCommunicator::copy(TensorView in, TensorView out, Stream& stream) {
  require<ShapeError>(in.bytes() == out.bytes(), "{}: {} cannot be copied to {}", label(), in.text(),
                      out.text());
  if (in.data == out.data || in.bytes() == 0 || device_.kind() == DeviceKind::kMeta) return stream.record();
  require<CommError>(device_.kind() == DeviceKind::kHost,
                     "{}: {} cannot be copied: expected memory of the host, or in place", label(), in.text());
  std::memcpy(out.data, in.data, in.bytes());
  return stream.record();
}

std::unique_ptr<Event> NullCommunicator::all_reduce(TensorView, ReduceOp, Stream& stream) {
  return stream.record();
}
std::unique_ptr<Event> NullCommunicator::all_gather(TensorView in, TensorView out, Stream& stream) {
  return copy(in, out, stream);
}
std::unique_ptr<Event> NullCommunicator::reduce_scatter(TensorView in, TensorView out, Stream& stream) {
  return copy(in, out, stream);
}
std::unique_ptr<Event> NullCommunicator::all_to_all(TensorView in, TensorView out, Stream& stream) {
  return copy(in, out, stream);
}
std::unique_ptr<Event> NullCommunicator::all_to_all_v(TensorView in, std::span<const std::int64_t>,
                                                      TensorView out, std::span<const std::int64_t>,
                                                      Stream& stream) {
  return copy(in, out, stream);
}
std::unique_ptr<Event> NullCommunicator::broadcast(TensorView, int, Stream& stream) {
  return stream.record();
}

std::unique_ptr<Event> NullCommunicator::send(TensorView, int peer, Stream&) {
  fail<CommError>("{}: send to peer {} in a group of one rank", label(), peer);
}
std::unique_ptr<Event> NullCommunicator::receive(TensorView, int peer, Stream&) {
  fail<CommError>("{}: receive from peer {} in a group of one rank", label(), peer);
}

}  // namespace stoa::comm
