#include "comm/check/check_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "comm/operation_kind.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {

struct CheckCommunicator::Pending {
  int sender = -1;  // of a receive
  Record mine{};
  std::vector<std::int64_t> theirs;  // [members, kFields]; of a receive the sender's alone
  Post post;                         // of a collective
  // After the memory that they fill, so that they go first.
  std::unique_ptr<Event> control;
  std::unique_ptr<Event> data;
};

namespace {

std::string tensor_text(const std::int64_t* record) {
  const bool rows = record[0] == static_cast<std::int64_t>(OperationKind::kAllToAllV);
  return fmt::format("{} bytes{} {}", record[1], rows ? " per row" : "",
                     name_of(static_cast<DType>(record[2])));
}

std::string text(const std::int64_t* record) {
  if (record[0] < 0 || record[0] >= static_cast<std::int64_t>(kOperationNames.size()))
    return fmt::format("operation number {}", record[0]);
  const auto kind = static_cast<OperationKind>(record[0]);
  if (kind == OperationKind::kBarrier) return std::string(name_of(kind));
  std::string detail;
  if (kind == OperationKind::kAllReduce) detail = record[3] == 0 ? "(sum)" : "(max)";
  if (kind == OperationKind::kBroadcast) detail = fmt::format(" from member {}", record[3]);
  return fmt::format("{}{} of {}", name_of(kind), detail, tensor_text(record));
}

CheckCommunicator::Record record_of(OperationKind kind, const TensorView& view, std::int64_t detail = 0) {
  return {static_cast<std::int64_t>(kind), static_cast<std::int64_t>(view.bytes()),
          static_cast<std::int64_t>(view.dtype), detail, 0};
}

TensorView view_of(std::int64_t* values, std::int64_t count) {
  return TensorView(values, DType::kI64, {count});
}

}  // namespace

class CheckCollective final : public Event {
 public:
  CheckCollective(CheckCommunicator& owner, std::shared_ptr<CheckCommunicator::Pending> pending)
      : owner_(owner), pending_(std::move(pending)) {}
  ~CheckCollective() override {
    try {
      if (std::uncaught_exceptions() == exceptions_) owner_.settle(*pending_);
    } catch (const Error&) {
      // The rank's next call says why.
    }
    pending_->post = nullptr;  // the tensors may be gone
    pending_->data.reset();
  }
  bool ready() const override {
    return owner_.try_settle(*pending_) && (!pending_->data || pending_->data->ready());
  }
  void wait() override {
    owner_.settle(*pending_);
    if (pending_->data) pending_->data->wait();
  }

 private:
  CheckCommunicator& owner_;
  std::shared_ptr<CheckCommunicator::Pending> pending_;
  int exceptions_ = std::uncaught_exceptions();
};

class CheckTransfer final : public Event {
 public:
  CheckTransfer(CheckCommunicator& owner, std::unique_ptr<CheckCommunicator::Pending> pending)
      : owner_(owner), pending_(std::move(pending)) {}
  bool ready() const override {
    if (!pending_->control->ready()) return false;
    owner_.compare(*pending_);
    return pending_->data->ready();
  }
  void wait() override {
    owner_.wait_for_transfer(*pending_->control);
    owner_.compare(*pending_);
    owner_.wait_for_transfer(*pending_->data);
  }

 private:
  CheckCommunicator& owner_;
  const std::unique_ptr<CheckCommunicator::Pending> pending_;
};

CheckCommunicator::CheckCommunicator(std::unique_ptr<Communicator> data,
                                     std::unique_ptr<Communicator> control, bool at_once)
    : Communicator(data->label()), data_(std::move(data)), control_(std::move(control)), at_once_(at_once) {
  require<InternalError>(data_->size() == control_->size() && data_->rank() == control_->rank(),
                         "{}: the control communicator is of another group", label());
  const auto members = static_cast<std::size_t>(size());
  sent_.resize(members);
  received_.resize(members);
}

CheckCommunicator::~CheckCommunicator() = default;

void CheckCommunicator::post_front() {
  const std::shared_ptr<Pending> front = waiting_.front();
  waiting_.pop_front();
  const std::int64_t* const first = front->theirs.data();
  for (int m = 0; m < size(); ++m) {
    const std::int64_t* const other = first + m * kFields;
    require<CommError>(
        std::equal(other, other + kFields, first),
        "{}: operation {} differs: member 0 asks for {} (its number {}), member {} for {} (its number {})",
        label(), front->mine[4], text(first), first[4], m, text(other), other[4]);
  }
  if (front->post) front->data = front->post();
}

void CheckCommunicator::compare(const Pending& receive) const {
  if (receive.sender < 0) return;
  require<CommError>(std::equal(receive.mine.begin(), receive.mine.end(), receive.theirs.begin()),
                     "{}: transfer {} differs: member {} sends {}, member {} receives {}", label(),
                     receive.mine[4], receive.sender, tensor_text(receive.theirs.data()), rank(),
                     tensor_text(receive.mine.data()));
}

void CheckCommunicator::settle(Pending& pending) {
  while (pending.post && !pending.data && !waiting_.empty()) {
    waiting_.front()->control->wait();
    post_front();
  }
}

bool CheckCommunicator::try_settle(Pending& pending) {
  while (pending.post && !pending.data && !waiting_.empty() && waiting_.front()->control->ready())
    post_front();
  return !pending.post || pending.data;
}

void CheckCommunicator::wait_for_transfer(Event& event) {
  // Not forever: the wrapped communicator knows how to name what hangs.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!waiting_.empty() && !event.ready() && std::chrono::steady_clock::now() < end) {
    while (!waiting_.empty() && waiting_.front()->control->ready()) post_front();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  event.wait();
}

std::unique_ptr<Event> CheckCommunicator::collective(Record record, Stream& stream, Post post) {
  auto pending = std::make_shared<Pending>();
  pending->mine = record;
  pending->mine[4] = collectives_++;
  pending->theirs.resize(static_cast<std::size_t>(size()) * kFields);
  pending->post = std::move(post);
  pending->control = control_->all_gather(
      view_of(pending->mine.data(), kFields),
      view_of(pending->theirs.data(), static_cast<std::int64_t>(pending->theirs.size())), stream);
  waiting_.push_back(pending);
  auto event = std::make_unique<CheckCollective>(*this, pending);
  if (at_once_)
    settle(*pending);
  else
    try_settle(*pending);  // and those before it whose requests are here
  return event;
}

std::unique_ptr<Event> CheckCommunicator::all_reduce(TensorView data, ReduceOp op, Stream& stream) {
  return collective(record_of(OperationKind::kAllReduce, data, static_cast<std::int64_t>(op)), stream,
                    [this, data, op, &stream] { return data_->all_reduce(data, op, stream); });
}

std::unique_ptr<Event> CheckCommunicator::all_gather(TensorView in, TensorView out, Stream& stream) {
  return collective(record_of(OperationKind::kAllGather, in), stream,
                    [this, in, out, &stream] { return data_->all_gather(in, out, stream); });
}

std::unique_ptr<Event> CheckCommunicator::reduce_scatter(TensorView in, TensorView out, Stream& stream) {
  return collective(record_of(OperationKind::kReduceScatter, in), stream,
                    [this, in, out, &stream] { return data_->reduce_scatter(in, out, stream); });
}

std::unique_ptr<Event> CheckCommunicator::all_to_all(TensorView in, TensorView out, Stream& stream) {
  return collective(record_of(OperationKind::kAllToAll, in), stream,
                    [this, in, out, &stream] { return data_->all_to_all(in, out, stream); });
}

std::unique_ptr<Event> CheckCommunicator::all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows,
                                                       TensorView out,
                                                       std::span<const std::int64_t> receive_rows,
                                                       Stream& stream) {
  Record record = record_of(OperationKind::kAllToAllV, in);
  record[1] = in.shape.inner() * static_cast<std::int64_t>(size_of(in.dtype));
  return collective(
      record, stream,
      [this, in, out, &stream, sends = std::vector<std::int64_t>(send_rows.begin(), send_rows.end()),
       receives = std::vector<std::int64_t>(receive_rows.begin(), receive_rows.end())] {
        return data_->all_to_all_v(in, sends, out, receives, stream);
      });
}

std::unique_ptr<Event> CheckCommunicator::broadcast(TensorView data, int root, Stream& stream) {
  return collective(record_of(OperationKind::kBroadcast, data, root), stream,
                    [this, data, root, &stream] { return data_->broadcast(data, root, stream); });
}

std::unique_ptr<Event> CheckCommunicator::send(TensorView data, int peer, Stream& stream) {
  require<CommError>(peer >= 0 && peer < size(), "{}: send to peer {}, peers are 0 to {}", label(), peer,
                     size() - 1);
  auto pending = std::make_unique<Pending>();
  pending->mine = record_of(OperationKind::kSend, data);
  pending->mine[4] = sent_[peer]++;
  pending->control = control_->send(view_of(pending->mine.data(), kFields), peer, stream);
  pending->data = data_->send(data, peer, stream);
  return std::make_unique<CheckTransfer>(*this, std::move(pending));
}

std::unique_ptr<Event> CheckCommunicator::receive(TensorView data, int peer, Stream& stream) {
  require<CommError>(peer >= 0 && peer < size(), "{}: receive from peer {}, peers are 0 to {}", label(), peer,
                     size() - 1);
  auto pending = std::make_unique<Pending>();
  pending->sender = peer;
  pending->mine = record_of(OperationKind::kSend, data);
  pending->mine[4] = received_[peer]++;
  pending->theirs.resize(kFields);
  pending->control = control_->receive(view_of(pending->theirs.data(), kFields), peer, stream);
  pending->data = data_->receive(data, peer, stream);
  return std::make_unique<CheckTransfer>(*this, std::move(pending));
}

void CheckCommunicator::barrier() {
  InlineStream stream;
  collective({static_cast<std::int64_t>(OperationKind::kBarrier), 0, 0, 0, 0}, stream, [this, &stream] {
    data_->barrier();
    return stream.record();
  })->wait();
}

}  // namespace stoa::comm
