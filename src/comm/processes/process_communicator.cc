#include "comm/processes/process_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "comm/arguments.h"
#include "comm/processes/process_operation.h"
#include "comm/processes/process_world.h"
#include "comm/rank_order_reduce.h"

namespace stoa::comm {
namespace {

// Below this a reduction is one exchange of whole tensors: half the rounds for more bytes.
constexpr std::size_t kOneRound = 32 * 1024;

class ProcessEvent final : public Event {
 public:
  ProcessEvent(ProcessWorld& world, std::shared_ptr<ProcessOperation> operation)
      : world_(world), operation_(std::move(operation)) {}
  ~ProcessEvent() override {
    if (operation_->done()) return;
    try {
      if (std::uncaught_exceptions() == exceptions_) world_.wait(*operation_);
    } catch (const CommError&) {
      // The job is down: the rank's next call says why.
    }
    operation_->withdraw();
  }
  bool ready() const override { return world_.poll(*operation_); }
  void wait() override { world_.wait(*operation_); }

 private:
  ProcessWorld& world_;
  std::shared_ptr<ProcessOperation> operation_;
  int exceptions_ = std::uncaught_exceptions();
};

void put(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

ProcessCommunicator::ProcessCommunicator(ProcessWorld& world, const std::string& label,
                                         std::vector<int> ranks, int member, int group)
    : Communicator(fmt::format("{} group of {}", label, world.rank_name(world.rank()))),
      world_(world),
      ranks_(std::move(ranks)),
      member_(member),
      group_(group),
      text_(fmt::format("{} group (ranks {})", label, rank_list(ranks_))) {}

std::shared_ptr<ProcessOperation> ProcessCommunicator::begin(const char* name, TensorView view, Kind kind) {
  world_.throw_if_aborted();
  const int tag = world_.tag(group_, kind, kind == kCollective ? collectives_++ : 0);
  return std::make_shared<ProcessOperation>(world_.link(), text_, name, view, activity(), tag);
}

std::unique_ptr<Event> ProcessCommunicator::start(std::shared_ptr<ProcessOperation> operation) {
  auto event = std::make_unique<ProcessEvent>(world_, operation);
  world_.start(std::move(operation));
  return event;
}

void ProcessCommunicator::reduce(const TensorView& view, std::int64_t from, std::int64_t to,
                                 const std::byte* others, ReduceOp op, void* out) const {
  const std::size_t bytes = static_cast<std::size_t>(to - from) * size_of(view.dtype);
  std::vector<const void*> inputs;
  for (int m = 0; m < size(); ++m) {
    if (m == member_) {
      inputs.push_back(byte_at(view, from));
    } else {
      inputs.push_back(others);
      others += bytes;
    }
  }
  void* const outputs[] = {out};
  reduce_in_rank_order(view.dtype, op, inputs, outputs, to - from);
}

std::unique_ptr<Event> ProcessCommunicator::all_reduce(TensorView data, ReduceOp op, Stream&) {
  check_view(caller(), data, "all_reduce");
  auto operation = begin(op == ReduceOp::kSum ? "all_reduce(sum)" : "all_reduce(max)", data, kCollective);
  ProcessOperation* const o = operation.get();
  const std::int64_t n = data.elements();
  const bool one_round = data.bytes() <= kOneRound;
  // Member m reduces elements [m * share, …): all of them in one round, else its part, which it then sends
  // around.
  const auto begin_of = [n, members = size()](int m) { return n * m / members; };
  const std::int64_t from = one_round ? 0 : begin_of(member_), to = one_round ? n : begin_of(member_ + 1);
  const std::size_t item = size_of(data.dtype), bytes = static_cast<std::size_t>(to - from) * item;
  const auto others = world_.staging(bytes * static_cast<std::size_t>(size()));
  std::byte* place = others.get();
  for (int m = 0; m < size(); ++m) {
    if (m == member_) continue;
    o->receive(place, bytes, ranks_[m]);
    place += bytes;
  }
  for (int m = 0; m < size(); ++m) {
    if (m == member_) continue;
    const std::int64_t first = one_round ? 0 : begin_of(m), last = one_round ? n : begin_of(m + 1);
    o->send(byte_at(data, first), static_cast<std::size_t>(last - first) * item, ranks_[m]);
  }
  o->then([this, o, data, op, one_round, begin_of, from, to, item, bytes, others] {
    reduce(data, from, to, others.get(), op, byte_at(data, from));
    if (one_round) return;
    for (int m = 0; m < size(); ++m)
      if (m != member_)
        o->receive(byte_at(data, begin_of(m)), static_cast<std::size_t>(begin_of(m + 1) - begin_of(m)) * item,
                   ranks_[m]);
    for (int m = 0; m < size(); ++m)
      if (m != member_) o->send(byte_at(data, from), bytes, ranks_[m]);
  });
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::all_gather(TensorView in, TensorView out, Stream&) {
  check_all_gather(caller(), in, out);
  auto operation = begin("all_gather", in, kCollective);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->receive(byte_at(out, in.elements() * m), in.bytes(), ranks_[m]);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->send(in.data, in.bytes(), ranks_[m]);
  put(byte_at(out, in.elements() * member_), in.data, in.bytes());
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::reduce_scatter(TensorView in, TensorView out, Stream&) {
  check_reduce_scatter(caller(), in, out);
  auto operation = begin("reduce_scatter", in, kCollective);
  const std::int64_t n = out.elements();
  const auto others = world_.staging(out.bytes() * static_cast<std::size_t>(size()));
  std::byte* place = others.get();
  for (int m = 0; m < size(); ++m) {
    if (m == member_) continue;
    operation->receive(place, out.bytes(), ranks_[m]);
    place += out.bytes();
  }
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->send(byte_at(in, n * m), out.bytes(), ranks_[m]);
  operation->then([this, in, out, n, others] {
    reduce(in, n * member_, n * (member_ + 1), others.get(), ReduceOp::kSum, out.data);
  });
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::all_to_all(TensorView in, TensorView out, Stream&) {
  check_all_to_all(caller(), in, out);
  auto operation = begin("all_to_all", in, kCollective);
  const std::int64_t n = in.elements() / size();
  const std::size_t bytes = static_cast<std::size_t>(n) * size_of(in.dtype);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->receive(byte_at(out, n * m), bytes, ranks_[m]);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->send(byte_at(in, n * m), bytes, ranks_[m]);
  put(byte_at(out, n * member_), byte_at(in, n * member_), bytes);
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::all_to_all_v(TensorView in,
                                                         std::span<const std::int64_t> send_rows,
                                                         TensorView out,
                                                         std::span<const std::int64_t> receive_rows,
                                                         Stream&) {
  check_all_to_all_v(caller(), in, send_rows, out, receive_rows);
  require<CommError>(send_rows[member_] == receive_rows[member_],
                     "{}: all_to_all_v sends {} rows to itself and expects {}", label(), send_rows[member_],
                     receive_rows[member_]);
  auto operation = begin("all_to_all_v", in, kCollective);
  const std::int64_t width = in.shape.inner();
  const std::size_t row = static_cast<std::size_t>(width) * size_of(in.dtype);
  const auto from = offsets_of(send_rows), to = offsets_of(receive_rows);
  const auto bytes = [&](std::int64_t rows) { return static_cast<std::size_t>(rows) * row; };
  // Also where there are no rows: both sides then agree that there are none.
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->receive(byte_at(out, to[m] * width), bytes(receive_rows[m]), ranks_[m]);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->send(byte_at(in, from[m] * width), bytes(send_rows[m]), ranks_[m]);
  put(byte_at(out, to[member_] * width), byte_at(in, from[member_] * width), bytes(send_rows[member_]));
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::broadcast(TensorView data, int root, Stream&) {
  check_broadcast(caller(), data, root);
  auto operation = begin("broadcast", data, kCollective);
  // A binomial tree over the distance from the root: each member receives once and forwards.
  const int me = (member_ - root + size()) % size();
  int step = 1;
  while (step < size()) step *= 2;
  const auto pass_on = [this, data, root, me](ProcessOperation& o, int below) {
    for (int s = below / 2; s >= 1; s /= 2)
      if (me + s < size()) o.send(data.data, data.bytes(), ranks_[(me + s + root) % size()]);
  };
  if (me == 0) {
    pass_on(*operation, step);
  } else {
    const int low = me & -me;  // taken from where this bit is not set
    operation->receive(data.data, data.bytes(), ranks_[(me - low + root) % size()]);
    operation->then([o = operation.get(), pass_on, low] { pass_on(*o, low); });
  }
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::send(TensorView data, int peer, Stream&) {
  check_view(caller(), data, "send");
  check_peer(caller(), peer, "send");
  auto operation = begin("send", data, kTransfer);
  operation->send(data.data, data.bytes(), ranks_[peer]);
  return start(std::move(operation));
}

std::unique_ptr<Event> ProcessCommunicator::receive(TensorView data, int peer, Stream&) {
  check_view(caller(), data, "receive");
  check_peer(caller(), peer, "receive");
  auto operation = begin("receive", data, kTransfer);
  operation->receive(data.data, data.bytes(), ranks_[peer]);
  return start(std::move(operation));
}

void ProcessCommunicator::barrier() {
  auto operation = begin("barrier", {}, kCollective);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->receive(nullptr, 0, ranks_[m]);
  for (int m = 0; m < size(); ++m)
    if (m != member_) operation->send(nullptr, 0, ranks_[m]);
  start(std::move(operation))->wait();
}

}  // namespace stoa::comm
