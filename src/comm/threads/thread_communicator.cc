#include "comm/threads/thread_communicator.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>

namespace stoa::comm {

namespace {

class ThreadEvent final : public Event {
 public:
  ThreadEvent(ThreadGroup& group, std::shared_ptr<ThreadOperation> operation, int index)
      : group_(group), operation_(std::move(operation)), index_(index) {}
  ~ThreadEvent() override {
    if (operation_->done() || left_) return;
    try {
      if (std::uncaught_exceptions() > exceptions_)
        group_.leave(*operation_, index_);
      else
        group_.wait(*operation_, index_);
    } catch (const CommError&) {
      // The world is down: the rank's next call says why.
    }
  }
  bool ready() const override {
    if (group_.poll(*operation_)) return true;
    group_.world().throw_if_aborted();
    return false;
  }
  void wait() override {
    if (left_) group_.world().throw_if_aborted();
    left_ = true;  // a wait that throws has left the operation
    group_.wait(*operation_, index_);
    left_ = false;
  }

 private:
  ThreadGroup& group_;
  std::shared_ptr<ThreadOperation> operation_;
  int index_;
  int exceptions_ = std::uncaught_exceptions();
  bool left_ = false;
};

std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> offsets(rows.size());
  std::exclusive_scan(rows.begin(), rows.end(), offsets.begin(), std::int64_t{0});
  return offsets;
}

bool overlap(const TensorView& a, const TensorView& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data),
             begin_b = reinterpret_cast<std::uintptr_t>(b.data);
  return begin_a < begin_b + b.bytes() && begin_b < begin_a + a.bytes();
}

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadGroup& group, int member)
    : Communicator(fmt::format("{} group of rank {}", group.name(), group.world_rank(member))),
      group_(group),
      member_(member),
      sent_(static_cast<std::size_t>(group.size())),
      received_(static_cast<std::size_t>(group.size())) {}

void ThreadCommunicator::check_view(const TensorView& view, const char* operation) const {
  require<ShapeError>(view.device == DeviceKind::kHost, "{}: {} of {}: threads share host memory only",
                      label(), operation, view.text());
  require<ShapeError>(view.contiguous(), "{}: {} of {}: the rows must be contiguous, their stride is {}",
                      label(), operation, view.text(), view.stride0);
}

void ThreadCommunicator::check_peer(int peer, const char* operation) const {
  require<CommError>(peer >= 0 && peer < size() && peer != member_,
                     "{}: {} names peer {}, peers are 0 to {} without {}", label(), operation, peer,
                     size() - 1, member_);
}

std::unique_ptr<Event> ThreadCommunicator::collective(ThreadOperationKind kind, ReduceOp op, int root,
                                                      ThreadPart part) {
  std::vector<int> ranks;
  for (int m = 0; m < size(); ++m) ranks.push_back(group_.world_rank(m));
  auto operation = std::make_shared<ThreadOperation>(kind, op, root, std::move(ranks));
  return std::make_unique<ThreadEvent>(
      group_, group_.post({-1, -1, collectives_++}, std::move(operation), member_, std::move(part)), member_);
}

std::unique_ptr<Event> ThreadCommunicator::all_reduce(TensorView data, ReduceOp op, Stream&) {
  check_view(data, "all_reduce");
  return collective(ThreadOperationKind::kAllReduce, op, 0, {data, data, {}, {}, {}, {}});
}

std::unique_ptr<Event> ThreadCommunicator::all_gather(TensorView in, TensorView out, Stream&) {
  check_view(in, "all_gather");
  check_view(out, "all_gather");
  require<ShapeError>(out.dtype == in.dtype && out.elements() == in.elements() * size(),
                      "{}: all_gather of {} from {} ranks does not fit {}", label(), in.text(), size(),
                      out.text());
  require<ShapeError>(!overlap(in, out) || in.data == out.byte_offset(in.elements() * member_),
                      "{}: all_gather: the input may lie in the output only at this rank's place", label());
  return collective(ThreadOperationKind::kAllGather, ReduceOp::kSum, 0, {in, out, {}, {}, {}, {}});
}

std::unique_ptr<Event> ThreadCommunicator::reduce_scatter(TensorView in, TensorView out, Stream&) {
  check_view(in, "reduce_scatter");
  check_view(out, "reduce_scatter");
  require<ShapeError>(out.dtype == in.dtype && in.elements() == out.elements() * size(),
                      "{}: reduce_scatter of {} to {} ranks does not fit {}", label(), in.text(), size(),
                      out.text());
  require<ShapeError>(!overlap(in, out) || out.data == in.byte_offset(out.elements() * member_),
                      "{}: reduce_scatter: the output may lie in the input only at this rank's place",
                      label());
  return collective(ThreadOperationKind::kReduceScatter, ReduceOp::kSum, 0, {in, out, {}, {}, {}, {}});
}

std::unique_ptr<Event> ThreadCommunicator::all_to_all(TensorView in, TensorView out, Stream&) {
  check_view(in, "all_to_all");
  check_view(out, "all_to_all");
  require<ShapeError>(out.dtype == in.dtype && in.elements() == out.elements() && in.elements() % size() == 0,
                      "{}: all_to_all of {} among {} ranks does not fit {}", label(), in.text(), size(),
                      out.text());
  require<ShapeError>(!overlap(in, out), "{}: all_to_all: input and output overlap", label());
  return collective(ThreadOperationKind::kAllToAll, ReduceOp::kSum, 0, {in, out, {}, {}, {}, {}});
}

std::unique_ptr<Event> ThreadCommunicator::all_to_all_v(TensorView in,
                                                        std::span<const std::int64_t> send_rows,
                                                        TensorView out,
                                                        std::span<const std::int64_t> receive_rows, Stream&) {
  check_view(in, "all_to_all_v");
  check_view(out, "all_to_all_v");
  const auto fits = [&](const TensorView& view, std::span<const std::int64_t> rows) {
    std::int64_t left = view.rows();
    for (const std::int64_t n : rows) {
      if (n < 0 || n > left) return false;
      left -= n;
    }
    return static_cast<int>(rows.size()) == size();
  };
  require<ShapeError>(in.dtype == out.dtype && in.shape.inner() == out.shape.inner() && fits(in, send_rows) &&
                          fits(out, receive_rows),
                      "{}: all_to_all_v: the rows per peer do not fit {} and {}", label(), in.text(),
                      out.text());
  require<ShapeError>(!overlap(in, out), "{}: all_to_all_v: input and output overlap", label());
  return collective(ThreadOperationKind::kAllToAllV, ReduceOp::kSum, 0,
                    {in,
                     out,
                     {send_rows.begin(), send_rows.end()},
                     {receive_rows.begin(), receive_rows.end()},
                     offsets_of(send_rows),
                     offsets_of(receive_rows)});
}

std::unique_ptr<Event> ThreadCommunicator::broadcast(TensorView data, int root, Stream&) {
  check_view(data, "broadcast");
  require<CommError>(root >= 0 && root < size(), "{}: broadcast from member {}, members are 0 to {}", label(),
                     root, size() - 1);
  return collective(ThreadOperationKind::kBroadcast, ReduceOp::kSum, root, {data, data, {}, {}, {}, {}});
}

std::unique_ptr<Event> ThreadCommunicator::transfer(TensorView in, TensorView out, int source,
                                                    int destination, std::uint64_t number) {
  const int index = source == member_ ? 0 : 1;
  auto operation = std::make_shared<ThreadOperation>(
      ThreadOperationKind::kTransfer, ReduceOp::kSum, 0,
      std::vector<int>{group_.world_rank(source), group_.world_rank(destination)});
  return std::make_unique<ThreadEvent>(
      group_,
      group_.post({source, destination, number}, std::move(operation), index, {in, out, {}, {}, {}, {}}),
      index);
}

std::unique_ptr<Event> ThreadCommunicator::send(TensorView data, int peer, Stream&) {
  check_view(data, "send");
  check_peer(peer, "send");
  return transfer(data, {}, member_, peer, sent_[peer]++);
}

std::unique_ptr<Event> ThreadCommunicator::receive(TensorView data, int peer, Stream&) {
  check_view(data, "receive");
  check_peer(peer, "receive");
  return transfer({}, data, peer, member_, received_[peer]++);
}

void ThreadCommunicator::barrier() {
  collective(ThreadOperationKind::kBarrier, ReduceOp::kSum, 0, {})->wait();
}

}  // namespace stoa::comm
