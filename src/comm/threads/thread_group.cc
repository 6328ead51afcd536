#include "comm/threads/thread_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "base/cores.h"

namespace stoa::comm {

namespace {

constexpr std::size_t kSmall = 64 * 1024;  // bytes below which the last to arrive does the work at once
constexpr int kSpins = 2000;               // looks before a waiting rank blocks, when every rank has a core

}  // namespace

ThreadGroup::ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> ranks)
    : world_(world),
      name_(std::move(name)),
      ranks_(std::move(ranks)),
      spins_(world.size() <= available_cores() ? kSpins : 0) {}

std::shared_ptr<ThreadOperation> ThreadGroup::post(Key key, std::shared_ptr<ThreadOperation> proto, int index,
                                                   ThreadPart part) {
  world_.throw_if_aborted();
  std::string wrong;
  std::shared_ptr<ThreadOperation> operation;
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    operation = open_.try_emplace(key, proto).first->second;
    const int members = static_cast<int>(operation->parts.size());
    proto->parts[index] = operation == proto ? ThreadPart{} : part;
    if (operation->kind != proto->kind || operation->op != proto->op || operation->root != proto->root) {
      int other = 0;
      while (!operation->parts[other].arrived) ++other;
      wrong = fmt::format("rank {} asks for {}, rank {} for {}", operation->ranks[other],
                          operation->text(other), proto->ranks[index], proto->text(index));
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
    const std::string message = fmt::format("{} group (ranks {}): operation {} does not match: {}", name_,
                                            fmt::join(ranks_, ", "), std::get<2>(key), wrong);
    operation->withdraw();
    world_.abort(ranks_[operation->kind == OperationKind::kSend ? 0 : index], message);
    throw CommError(message);
  }
  if (complete) {
    if (operation->bytes() <= kSmall) operation->help();
    wake();
  }
  return operation;
}

bool ThreadGroup::poll(ThreadOperation& operation) {
  if (operation.help()) wake();
  return operation.done();
}

void ThreadGroup::wait(ThreadOperation& operation, int index) {
  if (poll(operation)) return;
  for (int i = 0; i < spins_ && !operation.done() && !operation.claimable(); ++i) {
    if (i % 64 == 63) std::this_thread::yield();
  }
  if (poll(operation)) return;
  const auto deadline = std::chrono::steady_clock::now() + world_.timeout();
  std::string late;
  {
    std::unique_lock lock(mutex_);
    while (!operation.done() && !world_.aborted() && late.empty()) {
      if (operation.claimable()) {
        lock.unlock();
        poll(operation);
        lock.lock();
      } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !operation.done() &&
                 !operation.claimable()) {
        late = hang(operation, index);
      }
    }
  }
  if (operation.done()) return;
  leave(operation, index);
  if (!late.empty()) world_.abort(operation.ranks[index], late);
  world_.throw_if_aborted();
}

void ThreadGroup::leave(ThreadOperation& operation, int index) {
  operation.withdraw();
  const std::lock_guard lock(mutex_);
  operation.parts[index].left = true;
}

void ThreadGroup::wake() {
  {
    const std::lock_guard lock(mutex_);
  }  // a waiter is either before its look at the state or already waiting
  changed_.notify_all();
}

std::string ThreadGroup::hang(const ThreadOperation& operation, int index) const {
  std::vector<int> missing, left;
  for (std::size_t m = 0; m < operation.parts.size(); ++m) {
    if (!operation.parts[m].arrived) missing.push_back(operation.ranks[m]);
    if (operation.parts[m].left) left.push_back(operation.ranks[m]);
  }
  std::string why = fmt::format("never arrived: rank {}", fmt::join(missing, ", "));
  if (missing.empty()) why = left.empty() ? "all arrived, the work did not end" : "";
  if (!left.empty())
    why += fmt::format("{}left before the end: rank {}", why.empty() ? "" : "; ", fmt::join(left, ", "));
  return fmt::format("{} group of rank {} (ranks {}): {} waited {:.1f} s; {}", name_, operation.ranks[index],
                     fmt::join(ranks_, ", "), operation.text(index),
                     std::chrono::duration<double>(world_.timeout()).count(), why);
}

}  // namespace stoa::comm
