// The only parallelism of a rank on a CPU. Work is cut into tasks by the caller from shapes alone, so results do not
// depend on the number of workers or on who ran which task.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <exception>
#include <thread>
#include <vector>

namespace stoa {

class WorkerPool {
 public:
  // `workers` >= 1 counts the calling thread: a pool of one starts no thread.
  explicit WorkerPool(int workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return workers_; }

  // Calls body(task, worker) for every task in [0, tasks); returns when all are done. The first exception that a task
  // throws is rethrown here. Not reentrant: a task must not call run().
  void run(std::int64_t tasks, const std::function<void(std::int64_t task, int worker)>& body);

 private:
  void work(int worker);
  void drain(int worker);

  const int workers_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_, finish_;
  const std::function<void(std::int64_t, int)>* body_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> running_{0};
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace stoa
