#include "comm/threads/thread_communicator.h"

#include <fmt/format.h>

#include <exception>

#include "comm/arguments.h"
#include "comm/threads/device_operation.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {

namespace {

// How an event asks after an operation that the members share …
struct SharedWork {
  ThreadGroup& group;
  std::shared_ptr<ThreadOperation> operation;
  int index;

  bool done() const { return operation->done(); }
  bool poll() const { return group.poll(*operation, index); }
  void answer(std::uint64_t& answered) const { group.answer(*operation, index, answered); }
  void wait() const { group.wait(*operation, index); }
  void leave() const { group.leave(*operation, index); }
};

// … and after one that goes by letters.
struct Correspondence {
  ThreadGroup& group;
  LetterExchange& letters;
  std::uint64_t number;

  bool done() const { return letters.done(number); }
  bool poll() const { return letters.poll(number); }
  void answer(std::uint64_t& answered) const { letters.answer(number, answered); }
  void wait() const { letters.wait(number); }
  void leave() const { letters.leave(number); }
};

// … and after one on a device, whose result the asker's stream is to find.
struct SubmittedWork {
  ThreadGroup& group;
  std::shared_ptr<ThreadOperation> operation;
  int index;
  Stream& stream;
  bool ordered = false;

  const DeviceOperation& submitted() const { return static_cast<const DeviceOperation&>(*operation); }
  bool done() const { return ordered; }
  bool poll() const { return group.poll(*operation, index) && submitted().finished(); }
  void answer(std::uint64_t& answered) const { group.answer(*operation, index, answered); }
  void wait() {
    group.wait(*operation, index);
    submitted().order(stream);
    ordered = true;
  }
  void leave() const { group.leave(*operation, index); }
};

template <class Work>
class ThreadEvent final : public Event {
 public:
  explicit ThreadEvent(Work work) : work_(std::move(work)) {}
  ~ThreadEvent() override {
    if (work_.done() || left_) return;
    try {
      if (std::uncaught_exceptions() > exceptions_)
        work_.leave();
      else
        work_.wait();
    } catch (const Error&) {
      // The world or the device is down: the rank's next call says why.
    }
  }
  bool ready() const override {
    if (work_.poll()) return true;
    work_.group.world().throw_if_aborted();
    work_.answer(answered_);
    return false;
  }
  void wait() override {
    if (left_) work_.group.world().throw_if_aborted();
    left_ = true;  // a wait that throws has left the operation
    work_.wait();
    left_ = false;
  }

 private:
  Work work_;
  int exceptions_ = std::uncaught_exceptions();
  bool left_ = false;
  mutable std::uint64_t answered_ = 0;
};

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadGroup& group, int member)
    : Communicator(fmt::format("{} group of rank {}", group.name(), group.world_rank(member))),
      group_(group),
      member_(member),
      letters_(group, member),
      sent_(static_cast<std::size_t>(group.size())),
      received_(static_cast<std::size_t>(group.size())) {}

std::unique_ptr<Event> ThreadCommunicator::collective(OperationKind kind, ReduceOp op, int root,
                                                      ThreadPart part, Stream& stream) {
  group_.world().throw_if_aborted();
  const Heading heading{kind,
                        op,
                        part.in.dtype,
                        root,
                        kind == OperationKind::kBarrier ? 0 : part.in.elements(),
                        kind != OperationKind::kBarrier && side().takes(part.in)};
  const Request request{heading, part.in, part.out, activity()};
  const std::uint64_t number = letters_.post(request);
  if (letters_.takes(heading))
    return std::make_unique<ThreadEvent<Correspondence>>(Correspondence{group_, letters_, number});
  part.activity = request.activity;
  return post({-1, -1, number}, kind, op, root, group_.ranks(), member_, std::move(part),
              heading.on_device ? &stream : nullptr);
}

std::unique_ptr<Event> ThreadCommunicator::post(ThreadGroup::Key key, OperationKind kind, ReduceOp op,
                                                int root, std::vector<int> ranks, int index, ThreadPart part,
                                                Stream* stream) {
  if (!stream) {
    auto operation = std::make_shared<ThreadOperation>(kind, op, root, std::move(ranks));
    return std::make_unique<ThreadEvent<SharedWork>>(
        SharedWork{group_, group_.post(key, std::move(operation), index, std::move(part)), index});
  }
  part.side = side();
  part.submitted = stream->record();
  auto operation = std::make_shared<DeviceOperation>(kind, op, root, std::move(ranks));
  return std::make_unique<ThreadEvent<SubmittedWork>>(
      SubmittedWork{group_, group_.post(key, std::move(operation), index, std::move(part)), index, *stream});
}

std::unique_ptr<Event> ThreadCommunicator::all_reduce(TensorView data, ReduceOp op, Stream& stream) {
  check_view(caller(), data, "all_reduce");
  return collective(OperationKind::kAllReduce, op, 0, {data, data}, stream);
}

std::unique_ptr<Event> ThreadCommunicator::all_gather(TensorView in, TensorView out, Stream& stream) {
  check_all_gather(caller(), in, out);
  return collective(OperationKind::kAllGather, ReduceOp::kSum, 0, {in, out}, stream);
}

std::unique_ptr<Event> ThreadCommunicator::reduce_scatter(TensorView in, TensorView out, Stream& stream) {
  check_reduce_scatter(caller(), in, out);
  return collective(OperationKind::kReduceScatter, ReduceOp::kSum, 0, {in, out}, stream);
}

std::unique_ptr<Event> ThreadCommunicator::all_to_all(TensorView in, TensorView out, Stream& stream) {
  check_all_to_all(caller(), in, out);
  return collective(OperationKind::kAllToAll, ReduceOp::kSum, 0, {in, out}, stream);
}

std::unique_ptr<Event> ThreadCommunicator::all_to_all_v(TensorView in,
                                                        std::span<const std::int64_t> send_rows,
                                                        TensorView out,
                                                        std::span<const std::int64_t> receive_rows,
                                                        Stream& stream) {
  check_all_to_all_v(caller(), in, send_rows, out, receive_rows);
  return collective(OperationKind::kAllToAllV, ReduceOp::kSum, 0,
                    {in,
                     out,
                     {send_rows.begin(), send_rows.end()},
                     {receive_rows.begin(), receive_rows.end()},
                     offsets_of(send_rows),
                     offsets_of(receive_rows)},
                    stream);
}

std::unique_ptr<Event> ThreadCommunicator::broadcast(TensorView data, int root, Stream& stream) {
  check_broadcast(caller(), data, root);
  return collective(OperationKind::kBroadcast, ReduceOp::kSum, root, {data, data}, stream);
}

std::unique_ptr<Event> ThreadCommunicator::transfer(TensorView in, TensorView out, int source,
                                                    int destination, std::uint64_t number, Stream& stream) {
  ThreadPart part{in, out};
  part.activity = activity();
  return post({source, destination, number}, OperationKind::kSend, ReduceOp::kSum, 0,
              {group_.world_rank(source), group_.world_rank(destination)}, source == member_ ? 0 : 1,
              std::move(part), side().takes(source == member_ ? in : out) ? &stream : nullptr);
}

std::unique_ptr<Event> ThreadCommunicator::send(TensorView data, int peer, Stream& stream) {
  check_view(caller(), data, "send");
  check_peer(caller(), peer, "send");
  return transfer(data, {}, member_, peer, sent_[peer]++, stream);
}

std::unique_ptr<Event> ThreadCommunicator::receive(TensorView data, int peer, Stream& stream) {
  check_view(caller(), data, "receive");
  check_peer(caller(), peer, "receive");
  return transfer({}, data, peer, member_, received_[peer]++, stream);
}

void ThreadCommunicator::barrier() {
  InlineStream none;
  collective(OperationKind::kBarrier, ReduceOp::kSum, 0, {}, none)->wait();
}

}  // namespace stoa::comm
