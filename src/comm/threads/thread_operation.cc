#include "comm/threads/thread_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "comm/arguments.h"
#include "comm/rank_order_reduce.h"

namespace stoa::comm {

namespace {

constexpr std::int64_t kReduceChunk =
    32 * 1024;  // elements; small enough to share, large enough to pay for a claim

// Counts whoever does a share, a device that fails in it included.
struct Running {
  explicit Running(std::atomic<int>& number) : count(number) { ++count; }
  ~Running() { --count; }
  std::atomic<int>& count;
};

}  // namespace

ThreadOperation::ThreadOperation(OperationKind operation, ReduceOp reduce, int from, std::vector<int> members)
    : kind(operation), op(reduce), root(from), ranks(std::move(members)), parts(ranks.size()) {}

std::string_view ThreadOperation::name(int member) const {
  if (kind == OperationKind::kAllReduce) return op == ReduceOp::kSum ? "all_reduce(sum)" : "all_reduce(max)";
  if (kind == OperationKind::kSend && member == 1) return name_of(OperationKind::kReceive);
  return name_of(kind);
}

std::string ThreadOperation::text(int member) const {
  const ThreadPart& part = parts[member];
  if (kind == OperationKind::kBarrier) return "barrier";
  const bool receiver = kind == OperationKind::kSend && member == 1;
  const TensorView& view = receiver ? part.out : part.in;
  std::string text = fmt::format("{} {} ({} bytes{})", name(member), view.text(), view.bytes(),
                                 view.device == DeviceKind::kHost ? "" : " of a GPU");
  if (kind == OperationKind::kBroadcast) text += fmt::format(" from rank {}", ranks[root]);
  return text;
}

std::string ThreadOperation::mismatch() const {
  const int size = static_cast<int>(parts.size());
  const auto differ = [&](int a, int b) { return comm::differ(*this, a, *this, b); };
  if (kind == OperationKind::kSend) {
    const bool fits = parts[0].in.dtype == parts[1].out.dtype &&
                      parts[0].in.elements() == parts[1].out.elements() &&
                      parts[0].in.device == parts[1].out.device;
    return fits ? "" : differ(0, 1);
  }
  for (int m = 1; m < size; ++m) {
    const TensorView& first = parts[0].in;
    const TensorView& other = parts[m].in;
    if (first.dtype != other.dtype || first.device != other.device) return differ(0, m);
    if (kind != OperationKind::kAllToAllV && first.elements() != other.elements()) return differ(0, m);
    if (kind == OperationKind::kAllToAllV && first.shape.inner() != other.shape.inner()) return differ(0, m);
  }
  if (kind == OperationKind::kAllToAllV)
    for (int s = 0; s < size; ++s)
      for (int d = 0; d < size; ++d)
        if (parts[s].send_rows[d] != parts[d].receive_rows[s])
          return fmt::format("in all_to_all_v rank {} sends {} rows to rank {}, which expects {}", ranks[s],
                             parts[s].send_rows[d], ranks[d], parts[d].receive_rows[s]);
  return "";
}

void ThreadOperation::start() {
  if (kind != OperationKind::kBarrier) divide();
  next_ = std::vector<std::atomic<std::int64_t>>(static_cast<std::size_t>(lanes_));
  tasks_left_ = tasks_;
  if (tasks_ == 0) done_ = true;
  started_ = true;
}

void ThreadOperation::divide() {
  const auto size = static_cast<std::int64_t>(parts.size());
  for (const ThreadPart& part : parts) bytes_ = std::max({bytes_, part.in.bytes(), part.out.bytes()});
  const std::int64_t elements = parts[0].in.elements();
  switch (kind) {
    case OperationKind::kSend:
      tasks_ = 1;
      break;
    case OperationKind::kAllReduce:
      chunk_ = kReduceChunk;
      tasks_ = chunks_ = size == 1 ? 0 : (elements + chunk_ - 1) / chunk_;
      break;
    case OperationKind::kReduceScatter:
      chunk_ = kReduceChunk;
      chunks_ = (elements / size + chunk_ - 1) / chunk_;
      tasks_ = chunks_ * size;
      lanes_ = static_cast<int>(size);
      break;
    case OperationKind::kBroadcast:
      tasks_ = size;
      lanes_ = static_cast<int>(size);
      break;
    default:
      tasks_ = size * size;
      lanes_ = static_cast<int>(size);
      break;
  }
}

std::int64_t ThreadOperation::claim(int index) {
  const std::int64_t share = tasks_ / lanes_;
  for (int i = 0; i < lanes_; ++i) {
    const int lane = (index + i) % lanes_;
    if (next_[lane].load() >= share) continue;
    if (const std::int64_t task = next_[lane].fetch_add(1); task < share) {
      --tasks_left_;
      return lane * share + task;
    }
  }
  return -1;
}

bool ThreadOperation::help(int index) {
  if (!claimable()) return false;
  for (;;) {
    // Set before withdrawn_ is read, so that withdraw() either is seen here or sees this thread running.
    const Running running(running_);
    std::int64_t task = 0;
    if (withdrawn_.load() || (task = claim(index)) < 0) return false;
    perform(task);
    if (finished_.fetch_add(1) + 1 < tasks_) continue;
    done_ = true;
    return true;
  }
}

std::string differ(const ThreadOperation& a, int i, const ThreadOperation& b, int j) {
  return fmt::format("rank {} asks for {}, rank {} for {}", a.ranks[i], a.text(i), b.ranks[j], b.text(j));
}

void ThreadOperation::withdraw() {
  withdrawn_ = true;
  while (running_.load() > 0) std::this_thread::yield();  // at most one share of work each
}

ThreadOperation::Piece ThreadOperation::piece_between(int source, int destination) const {
  if (kind == OperationKind::kSend ? source != 0 || destination != 1
                                   : kind == OperationKind::kBroadcast && source != root)
    return {};
  const TensorView& in = parts[source].in;
  const TensorView& out = parts[destination].out;
  const std::int64_t size = static_cast<std::int64_t>(parts.size());
  std::int64_t from = 0, to = 0, count = in.elements();
  if (kind == OperationKind::kAllGather) {
    to = source * count;
  } else if (kind == OperationKind::kAllToAll) {
    count /= size;
    from = destination * count;
    to = source * count;
  } else if (kind == OperationKind::kAllToAllV) {
    const std::int64_t width = in.shape.inner();
    from = parts[source].send_offsets[destination] * width;
    to = parts[destination].receive_offsets[source] * width;
    count = parts[source].send_rows[destination] * width;
  }
  return {byte_at(out, to), byte_at(in, from), static_cast<std::size_t>(count) * size_of(in.dtype)};
}

void ThreadOperation::perform(std::int64_t task) {
  const auto copy = [](const Piece& piece) {
    if (piece.bytes > 0 && piece.to != piece.from) std::memcpy(piece.to, piece.from, piece.bytes);
  };
  const int size = static_cast<int>(parts.size());
  const DType type = parts[0].in.dtype;
  switch (kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter: {
      const bool scatter = kind == OperationKind::kReduceScatter;
      const std::int64_t share = scatter ? parts[0].in.elements() / size : parts[0].in.elements();
      const int owner = scatter ? static_cast<int>(task / chunks_) : 0;
      const std::int64_t begin = (task % chunks_) * chunk_;
      const std::int64_t count = std::min(chunk_, share - begin);
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      for (const ThreadPart& part : parts) inputs.push_back(byte_at(part.in, owner * share + begin));
      if (scatter)
        outputs.push_back(byte_at(parts[owner].out, begin));
      else
        for (const ThreadPart& part : parts) outputs.push_back(byte_at(part.in, begin));
      reduce_in_rank_order(type, op, inputs, outputs, count);
      break;
    }
    case OperationKind::kSend:
      copy(piece_between(0, 1));
      break;
    case OperationKind::kBroadcast:
      copy(piece_between(root, static_cast<int>(task)));
      break;
    default: {  // from itself first, then from the members behind it: no two read the same at once
      const int to = static_cast<int>(task / size);
      copy(piece_between((to + static_cast<int>(task % size)) % size, to));
      break;
    }
  }
}

}  // namespace stoa::comm
