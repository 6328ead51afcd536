#include "comm/meta/meta_communicator.h"

namespace stoa::comm {

MetaCommunicator::MetaCommunicator(std::string label, int size, int rank)
    : Communicator(std::move(label)), size_(size), rank_(rank) {
  require<InternalError>(rank >= 0 && rank < size, "rank {} of a group of {}", rank, size);
}

std::unique_ptr<Event> MetaCommunicator::add(OperationKind operation, const TensorView& view,
                                             Stream& stream) {
  Count& count = counts_[static_cast<int>(operation)];
  ++count.calls;
  count.bytes += static_cast<std::int64_t>(view.bytes());
  return stream.record();
}

std::unique_ptr<Event> MetaCommunicator::all_reduce(TensorView data, ReduceOp, Stream& stream) {
  return add(OperationKind::kAllReduce, data, stream);
}
std::unique_ptr<Event> MetaCommunicator::all_gather(TensorView in, TensorView, Stream& stream) {
  return add(OperationKind::kAllGather, in, stream);
}
std::unique_ptr<Event> MetaCommunicator::reduce_scatter(TensorView in, TensorView, Stream& stream) {
  return add(OperationKind::kReduceScatter, in, stream);
}
std::unique_ptr<Event> MetaCommunicator::all_to_all(TensorView in, TensorView, Stream& stream) {
  return add(OperationKind::kAllToAll, in, stream);
}
std::unique_ptr<Event> MetaCommunicator::all_to_all_v(TensorView in, std::span<const std::int64_t>,
                                                      TensorView, std::span<const std::int64_t>,
                                                      Stream& stream) {
  return add(OperationKind::kAllToAllV, in, stream);
}
std::unique_ptr<Event> MetaCommunicator::broadcast(TensorView data, int, Stream& stream) {
  return add(OperationKind::kBroadcast, data, stream);
}
std::unique_ptr<Event> MetaCommunicator::send(TensorView data, int, Stream& stream) {
  return add(OperationKind::kSend, data, stream);
}
std::unique_ptr<Event> MetaCommunicator::receive(TensorView data, int, Stream& stream) {
  return add(OperationKind::kReceive, data, stream);
}

}  // namespace stoa::comm
