#include "comm/threads/device_operation.h"

#include "comm/arguments.h"

namespace stoa::comm {

DeviceOperation::DeviceOperation(OperationKind operation, ReduceOp reduce, int from, std::vector<int> members)
    : ThreadOperation(operation, reduce, from, std::move(members)) {}

void DeviceOperation::divide() {
  finished_.resize(parts.size());
  tasks_ = static_cast<std::int64_t>(parts.size());
  lanes_ = static_cast<int>(parts.size());
  bytes_ = 0;  // to submit work takes the same time for any number
}

void DeviceOperation::perform(std::int64_t task) {
  const int member = static_cast<int>(task);
  Stream& stream = *parts[member].side.stream;
  for (const ThreadPart& part : parts) stream.wait(*part.submitted);
  if (kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter)
    reduce(member, stream);
  else
    gather(member, stream);
  finished_[member] = stream.record();
}

// Reduces this member's share of the elements: for all members in an all-reduce, else for itself.
void DeviceOperation::reduce(int member, Stream& stream) {
  const std::int64_t size = static_cast<std::int64_t>(parts.size()), elements = parts[0].in.elements();
  const bool scatter = kind == OperationKind::kReduceScatter;
  const std::int64_t begin = scatter ? elements / size * member : elements * member / size;
  const std::int64_t end = scatter ? elements / size * (member + 1) : elements * (member + 1) / size;
  if (begin == end || (!scatter && size == 1)) return;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const ThreadPart& part : parts) inputs.push_back(byte_at(part.in, begin));
  if (scatter)
    outputs.push_back(byte_at(parts[member].out, 0));
  else
    for (const ThreadPart& part : parts) outputs.push_back(byte_at(part.in, begin));
  parts[member].side.transfer->reduce(parts[0].in.dtype, op == ReduceOp::kMax, inputs, outputs, end - begin,
                                      stream);
}

void DeviceOperation::gather(int member, Stream& stream) {
  for (int source = 0; source < static_cast<int>(parts.size()); ++source) {
    const Piece piece = piece_between(source, member);
    if (piece.bytes > 0 && piece.to != piece.from)
      parts[member].side.transfer->copy(piece.to, piece.from, piece.bytes, stream);
  }
}

void DeviceOperation::order(Stream& stream) const {
  for (const auto& event : finished_) stream.wait(*event);
}

bool DeviceOperation::finished() const {
  for (const auto& event : finished_)
    if (!event->ready()) return false;
  return true;
}

}  // namespace stoa::comm
