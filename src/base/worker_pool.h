// The only parallelism of a rank on a CPU. Work is cut into tasks by the caller from shapes alone, so results
// do not depend on the number of workers or on who ran which task.
//
// run() is entered several hundred times per token when a model decodes, so it takes no lock and makes no
// system call while the workers are awake: they poll for about kSpin before they sleep. A worker that is
// late, or that the operating system has put aside, is not waited for unless it holds a task.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace stoa {

class FetchAhead;

class WorkerPool {
 public:
  // `workers` >= 1 counts the calling thread: a pool of one starts no thread.
  explicit WorkerPool(int workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return workers_; }
  // What workers fetch while they poll.
  FetchAhead& fetch_ahead() { return *fetch_ahead_; }

  // Calls body(task, worker) for every task in [0, tasks), tasks < 2^32 - 1; returns when all are done. The
  // first exception that a task throws is rethrown here; tasks not yet begun are then left out. Not
  // reentrant: a task must not call run(), and one thread at a time calls it.
  template <class Body>
  void run(std::int64_t tasks, const Body& body) {
    static_assert(std::is_invocable_v<const Body&, std::int64_t, int>, "a body takes a task and a worker");
    run_calls(
        tasks,
        [](const void* b, std::int64_t task, int worker) { (*static_cast<const Body*>(b))(task, worker); },
        &body);
  }

  // How long a worker without work polls before it sleeps: long enough to bridge the gap between two
  // operations of a step, short enough to leave the core to others when a rank waits.
  static constexpr std::chrono::microseconds kSpin{50};

 private:
  using Call = void (*)(const void* body, std::int64_t task, int worker);

  void run_calls(std::int64_t tasks, Call call, const void* body);
  void work(int worker);
  // Runs tasks of a generation until none is left.
  void drain(std::uint32_t generation, int worker);
  void finish_task(std::uint32_t tasks);

  const int workers_;
  std::vector<std::thread> threads_;

  // Generation (a number per run) in the upper half, next task in the lower. What a run is made of is written
  // while the next task is kClosed, and is read for a generation only by those who then take a task of it.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::uint32_t> tasks_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> body_{nullptr};
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<std::uint32_t> done_{0};

  // Sleeping threads. The counts tell the other side whether a thread must be woken.
  alignas(64) std::mutex mutex_;
  std::condition_variable start_, finish_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
  const std::unique_ptr<FetchAhead> fetch_ahead_;
};

}  // namespace stoa
