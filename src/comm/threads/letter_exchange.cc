#include "comm/threads/letter_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "comm/arguments.h"
#include "comm/rank_order_reduce.h"

namespace stoa::comm {

namespace {

constexpr std::size_t kRead = 32 * 1024;  // bytes of all letters of a collective, which each member reads

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

LetterExchange::LetterExchange(ThreadGroup& group, int member)
    : group_(group), member_(member), finished_(static_cast<std::size_t>(group.size())) {
  for (int m = 0; m < group.size(); ++m) next_.push_back(&group.outbox(m).first());
}

bool LetterExchange::takes(const Heading& heading) const {
  return heading.kind != OperationKind::kAllToAllV && !heading.on_device &&
         heading.bytes() * static_cast<std::size_t>(group_.size()) <= kRead;
}

std::uint64_t LetterExchange::post(const Request& request) {
  const Heading& heading = request.heading;
  const bool by_letter = takes(heading);
  const bool source = heading.kind != OperationKind::kBroadcast || heading.root == member_;
  const std::uint64_t number = first_ + pending_.size();
  if (!pending_.empty()) poll(number - 1);
  pending_.push_back({request, by_letter});
  finished_[member_] = first_;
  group_.outbox(member_).send(heading, request.in, request.activity, by_letter && source, first_,
                              *std::min_element(finished_.begin(), finished_.end()));
  group_.wake();
  return number;
}

bool LetterExchange::front_arrived() const {
  for (int m = 0; m < group_.size(); ++m)
    if (m != member_ && !next_[m]->sent(first_)) return false;
  return true;
}

bool LetterExchange::poll(std::uint64_t number) {
  if (done(number)) return true;
  if (refused_) group_.world().throw_if_aborted();
  while (!done(number) && front_arrived()) finish_front();
  return done(number);
}

void LetterExchange::finish_front() {
  const Pending& front = pending_.front();
  if (front.by_letter) {
    for (int m = 0; m < group_.size(); ++m)
      if (m != member_ && next_[m]->heading != front.request.heading) refuse(m);
    deliver(front.request);
  }
  for (int m = 0; m < group_.size(); ++m) {
    if (m == member_) continue;
    finished_[m] = next_[m]->finished;
    next_[m] = next_[m]->next;
  }
  pending_.pop_front();
  ++first_;
}

void LetterExchange::refuse(int member) {
  const int low = std::min(member, member_), high = std::max(member, member_);
  const std::string why = differ(*described(first_, low), low, *described(first_, high), high);
  refused_ = true;
  group_.refuse(first_, group_.world_rank(member_), why);
}

std::unique_ptr<ThreadOperation> LetterExchange::described(std::uint64_t number, int member) const {
  const auto letter_of = [&](int m) {
    const Letter* letter = next_[m];
    std::uint64_t n = first_;
    for (; n < number && letter->sent(n); ++n) letter = letter->next;
    return letter->sent(n) ? letter : nullptr;
  };
  const Pending& mine = pending_[number - first_];
  const Letter* const theirs = member == member_ ? nullptr : letter_of(member);
  if (member != member_ && !theirs) return nullptr;
  const Heading& heading = theirs ? theirs->heading : mine.request.heading;
  auto operation = std::make_unique<ThreadOperation>(heading.kind, heading.op, heading.root, group_.ranks());
  for (int m = 0; m < group_.size(); ++m) operation->parts[m].arrived = m == member_ || letter_of(m);
  operation->parts[member].in = theirs ? theirs->in : mine.request.in;
  operation->parts[member].activity = theirs ? theirs->activity : mine.request.activity;
  return operation;
}

const std::byte* LetterExchange::data_of(const Request& request, int member) const {
  return member == member_ ? byte_at(request.in, 0) : next_[member]->data->bytes;
}

void LetterExchange::deliver(const Request& request) {
  const int size = group_.size();
  const Heading& heading = request.heading;
  const std::size_t bytes = heading.bytes(), part = bytes / static_cast<std::size_t>(size);
  switch (heading.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter: {
      const bool scatter = heading.kind == OperationKind::kReduceScatter;
      inputs_.clear();
      for (int m = 0; m < size; ++m) inputs_.push_back(data_of(request, m) + (scatter ? member_ * part : 0));
      void* const out = request.out.data;
      reduce_in_rank_order(heading.dtype, heading.op, inputs_, {&out, 1},
                           static_cast<std::int64_t>((scatter ? part : bytes) / size_of(heading.dtype)));
      break;
    }
    case OperationKind::kAllGather:
      for (int m = 0; m < size; ++m)
        copy(static_cast<std::byte*>(request.out.data) + m * bytes, data_of(request, m), bytes);
      break;
    case OperationKind::kAllToAll:
      for (int m = 0; m < size; ++m)
        copy(static_cast<std::byte*>(request.out.data) + m * part, data_of(request, m) + member_ * part,
             part);
      break;
    case OperationKind::kBroadcast:
      if (member_ != heading.root) copy(request.out.data, data_of(request, heading.root), bytes);
      break;
    default:
      break;
  }
}

void LetterExchange::wait(std::uint64_t number) {
  for (int i = 0; i <= group_.spins(); ++i) {
    if (poll(number)) return;
    if (i % 64 == 63) std::this_thread::yield();
  }
  ThreadWorld& world = group_.world();
  const auto begin = std::chrono::steady_clock::now();
  auto tired = begin + world.timeout();
  std::uint64_t answered = 0;
  const auto over = [&] { return front_arrived() || world.aborted(); };
  try {
    while (!poll(number) && !world.aborted()) {
      answer(number, answered);
      if (group_.block([&] { return over() || world.inquiries() != answered; }, tired)) continue;
      group_.look_into([&] { return state_of(number); }, group_.world_rank(member_), begin, over);
      tired = std::chrono::steady_clock::now() + world.timeout();
    }
  } catch (const CommError&) {
    if (!done(number)) leave(number);
    throw;
  }
  if (done(number)) return;
  leave(number);
  world.throw_if_aborted();
}

void LetterExchange::answer(std::uint64_t number, std::uint64_t& answered) const {
  if (answered == group_.world().inquiries()) return;
  answered = group_.world().inquiries();
  group_.world().answer(group_.world_rank(member_), state_of(number));
}

// The operation of that number; what holds it up is the first that is still open.
WaitState LetterExchange::state_of(std::uint64_t number) const {
  WaitState state = group_.state_of(*described(number, member_), member_);
  state.awaited.clear();
  for (int m = 0; m < group_.size(); ++m)
    if (m != member_ && !next_[m]->sent(first_)) state.awaited.push_back(group_.world_rank(m));
  return state;
}

void LetterExchange::leave(std::uint64_t number) { pending_[number - first_].by_letter = false; }

}  // namespace stoa::comm
