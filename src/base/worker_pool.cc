#include "base/worker_pool.h"

#include "base/error.h"

namespace stoa {
namespace {

// Rounds of polling before a worker sleeps: long enough to bridge the gap between two operations of a step, short
// enough to leave the core to others when a rank waits.
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WorkerPool::WorkerPool(int workers) : workers_(workers) {
  require<ConfigError>(workers >= 1, "a worker pool needs at least 1 worker, got {}", workers);
  for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { work(w); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  for (auto& t : threads_) t.join();
}

void WorkerPool::run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) {
  if (tasks <= 0) return;
  if (workers_ == 1 || tasks == 1) {
    for (std::int64_t t = 0; t < tasks; ++t) body(t, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    running_.store(workers_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  drain(0);
  for (int i = 0; i < kSpins && running_.load(std::memory_order_acquire) != 0; ++i) relax();
  std::unique_lock lock(mutex_);
  finish_.wait(lock, [this] { return running_.load(std::memory_order_acquire) == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void WorkerPool::drain(int worker) {
  try {
    for (;;) {
      const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      (*body_)(task, worker);
    }
  } catch (...) {
    next_.store(tasks_, std::memory_order_relaxed);  // the others stop early
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void WorkerPool::work(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) relax();
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
      seen = generation_.load(std::memory_order_acquire);
      if (stop_) return;
    }
    drain(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex_);
      finish_.notify_one();
    }
  }
}

}  // namespace stoa
