#include "comm/threads/thread_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "base/cores.h"

namespace stoa::comm {

namespace {

constexpr std::size_t kSmall = 32 * 1024;  // bytes below which the last to arrive does the work at once
constexpr int kSpins = 2000;               // of a waiting rank, when every rank has a core

}  // namespace

ThreadGroup::ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> ranks)
    : world_(world),
      name_(std::move(name)),
      ranks_(std::move(ranks)),
      spins_(world.size() <= available_cores() ? kSpins : 0) {
  outboxes_.resize(static_cast<std::size_t>(size()));
}

// Held for less time than a sleep and a wake-up take.
std::unique_lock<std::mutex> ThreadGroup::lock() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; i < spins_ && !lock.owns_lock(); ++i) (void)lock.try_lock();
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

std::shared_ptr<ThreadOperation> ThreadGroup::post(Key key, std::shared_ptr<ThreadOperation> proto, int index,
                                                   ThreadPart part) {
  world_.throw_if_aborted();
  std::string wrong;
  std::shared_ptr<ThreadOperation> operation;
  bool complete = false;
  {
    const std::unique_lock held = lock();
    operation = open_.try_emplace(key, proto).first->second;
    const int members = static_cast<int>(operation->parts.size());
    proto->parts[index] = operation == proto ? ThreadPart{} : part;
    if (operation->kind != proto->kind || operation->op != proto->op || operation->root != proto->root) {
      int other = 0;
      while (!operation->parts[other].arrived) ++other;
      wrong = differ(*operation, other, *proto, index);
    } else {
      operation->parts[index] = std::move(part);
      operation->parts[index].arrived = true;
      complete = ++operation->arrived == members;
      if (complete) {
        wrong = operation->mismatch();
        if (wrong.empty()) operation->start();
        open_.erase(key);
      }
    }
  }
  if (!wrong.empty()) {
    operation->withdraw();
    refuse(std::get<2>(key), operation->ranks[index], wrong);
  }
  if (complete) {
    if (operation->bytes() <= kSmall) operation->help(index);
    wake();
  }
  return operation;
}

bool ThreadGroup::poll(ThreadOperation& operation, int index) {
  if (operation.help(index)) wake();
  return operation.done();
}

void ThreadGroup::wait(ThreadOperation& operation, int index) {
  for (int i = 0; i <= spins_; ++i) {
    if (poll(operation, index)) return;
    if (i % 64 == 63) std::this_thread::yield();
  }
  const auto begin = std::chrono::steady_clock::now();
  auto tired = begin + world_.timeout();
  std::uint64_t answered = 0;
  const auto over = [&] { return operation.done() || operation.claimable() || world_.aborted(); };
  try {
    while (!poll(operation, index) && !world_.aborted()) {
      answer(operation, index, answered);
      if (block([&] { return over() || world_.inquiries() != answered; }, tired)) continue;
      look_into([&] { return state_of(operation, index); }, operation.ranks[index], begin, over);
      tired = std::chrono::steady_clock::now() + world_.timeout();
    }
  } catch (const CommError&) {
    leave(operation, index);
    throw;
  }
  if (operation.done()) return;
  leave(operation, index);
  world_.throw_if_aborted();
}

void ThreadGroup::answer(const ThreadOperation& operation, int index, std::uint64_t& answered) {
  if (answered == world_.inquiries()) return;
  answered = world_.inquiries();
  world_.answer(operation.ranks[index], state_of(operation, index));
}

void ThreadGroup::leave(ThreadOperation& operation, int index) {
  operation.withdraw();
  const std::unique_lock held = lock();
  operation.parts[index].left = true;
}

void ThreadGroup::wake() {
  if (sleepers_.load() == 0) return;
  {
    const std::lock_guard lock(mutex_);
  }  // a waiter is either before its look at the state or already waiting
  changed_.notify_all();
}

void ThreadGroup::refuse(std::uint64_t number, int rank, const std::string& why) {
  const std::string message = fmt::format("{} group (ranks {}): operation {} does not match: {}", name_,
                                          fmt::join(ranks_, ", "), number, why);
  world_.abort(rank, message);
  throw CommError(message);
}

void ThreadGroup::look_into(const std::function<WaitState()>& state, int rank,
                            std::chrono::steady_clock::time_point begin, const std::function<bool()>& over) {
  const auto verdict = world_.inquire(rank, state, over);
  if (!verdict) return;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  world_.fail_all(
      fmt::format("rank {} waits {:.1f} s: {}; {}", rank, waited.count(), state().text, *verdict));
}

WaitState ThreadGroup::state_of(const ThreadOperation& operation, int index) {
  const std::unique_lock held = lock();
  WaitState state;
  for (std::size_t m = 0; m < operation.parts.size(); ++m)
    if (static_cast<int>(m) != index && (!operation.parts[m].arrived || operation.parts[m].left))
      state.awaited.push_back(operation.ranks[m]);
  state.text = fmt::format("{} group (ranks {}): {}{}", name_, rank_list(ranks_), operation.text(index),
                           operation.parts[index].activity.text());
  return state;
}

}  // namespace stoa::comm
