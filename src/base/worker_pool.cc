#include "base/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fetch_ahead.h"

namespace stoa {
namespace {

constexpr std::uint32_t kClosed = 0xffffffff;  // no task can be taken

std::uint32_t generation_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket >> 32); }
std::uint32_t next_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }
std::uint64_t ticket_of(std::uint32_t generation, std::uint32_t next) {
  return (static_cast<std::uint64_t>(generation) << 32) | next;
}

// True as soon as ready() is; false when it has not become so in time. Meanwhile idle() is called, which
// returns whether it did something.
template <class Ready, class Idle>
bool spin_until(const Ready& ready, const Idle& idle) {
  if (ready()) return true;
  const auto end = std::chrono::steady_clock::now() + WorkerPool::kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (idle()) {
        if (ready()) return true;
        continue;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

WorkerPool::WorkerPool(int workers)
    : workers_(workers), fetch_ahead_(std::make_unique<FetchAhead>(std::max(1, workers))) {
  require<ConfigError>(workers >= 1, "a worker pool needs at least 1 worker, got {}", workers);
  for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { work(w); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stop_.store(true);
  }
  start_.notify_all();
  for (auto& t : threads_) t.join();
}

void WorkerPool::run_calls(std::int64_t tasks, Call call, const void* body) {
  if (tasks <= 0) return;
  if (workers_ == 1 || tasks == 1) {
    for (std::int64_t t = 0; t < tasks; ++t) call(body, t, 0);
    return;
  }
  require<InternalError>(tasks < kClosed, "{} tasks for a worker pool, at most {}", tasks, kClosed - 1);
  const auto count = static_cast<std::uint32_t>(tasks);
  const std::uint32_t generation = generation_of(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store(ticket_of(generation, kClosed), std::memory_order_relaxed);
  // Release: a thread that reads one of these values also sees the closed ticket, and takes no task with it.
  tasks_.store(count, std::memory_order_release);
  call_.store(call, std::memory_order_release);
  body_.store(body, std::memory_order_release);
  failed_.store(false, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  // In one order with the counts of sleepers (all seq_cst): either we see the sleeper or it sees the ticket.
  ticket_.store(ticket_of(generation, 0));
  if (sleepers_.load() != 0) {
    { std::lock_guard lock(mutex_); }
    start_.notify_all();
  }
  drain(generation, 0);
  const auto finished = [&] { return done_.load(std::memory_order_acquire) == count; };
  if (!spin_until(finished, [this] { return fetch_ahead_->step(0); })) {
    std::unique_lock lock(mutex_);
    caller_sleeps_.store(true);
    finish_.wait(lock, [&] { return done_.load() == count; });
    caller_sleeps_.store(false);
  }
  if (failed_.load(std::memory_order_relaxed)) {
    std::unique_lock lock(mutex_);
    const std::exception_ptr error = std::exchange(error_, nullptr);
    lock.unlock();
    std::rethrow_exception(error);
  }
}

void WorkerPool::drain(std::uint32_t generation, int worker) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  for (;;) {
    if (generation_of(ticket) != generation) return;
    const std::uint32_t tasks = tasks_.load(std::memory_order_acquire), next = next_of(ticket);
    if (next >= tasks) return;  // kClosed too
    const Call call = call_.load(std::memory_order_acquire);
    const void* body = body_.load(std::memory_order_acquire);
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      continue;
    // A task of this generation is ours: nothing of the run changes before it is done.
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        call(body, next, worker);
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        failed_.store(true, std::memory_order_relaxed);
      }
    }
    finish_task(tasks);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void WorkerPool::finish_task(std::uint32_t tasks) {
  if (done_.fetch_add(1) + 1 == tasks && caller_sleeps_.load()) {
    { std::lock_guard lock(mutex_); }
    finish_.notify_one();
  }
}

void WorkerPool::work(int worker) {
  std::uint32_t seen = 0;
  const auto called = [&] {
    const std::uint64_t ticket = ticket_.load();
    return generation_of(ticket) != seen && next_of(ticket) != kClosed;
  };
  for (;;) {
    if (!spin_until(called, [&] { return fetch_ahead_->step(worker); })) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      start_.wait(lock, [&] { return stop_.load() || called(); });
      sleepers_.fetch_sub(1);
      if (stop_.load()) return;
    }
    seen = generation_of(ticket_.load(std::memory_order_acquire));
    drain(seen, worker);
  }
}

}  // namespace stoa
