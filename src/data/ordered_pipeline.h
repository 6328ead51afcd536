// One reader, several workers, one writer: blocks leave in the order in which they came, and memory is
// bounded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace stoa::data {

// Runs `read` on a thread of its own, `work` on `workers` threads, `write` on the calling one. The first
// failure in the order of the blocks, wherever it happened, is thrown here after all threads have ended.
template <class In, class Out>
class OrderedPipeline {
 public:
  using Read = std::function<bool(In&)>;  // false at the end
  using Work = std::function<void(int worker, In&, Out&)>;
  using Write = std::function<void(Out&)>;

  // At most `in_flight` blocks exist, and, but for one, at most `in_flight_bytes` of input as `size_of`
  // counts it.
  OrderedPipeline(int workers, std::int64_t in_flight, std::size_t in_flight_bytes,
                  std::function<std::size_t(const In&)> size_of)
      : workers_(workers),
        in_flight_(in_flight),
        in_flight_bytes_(in_flight_bytes),
        size_of_(std::move(size_of)) {}

  void run(const Read& read, const Work& work, const Write& write) {
    std::vector<std::jthread> threads;  // stopped and joined on every way out of here
    threads.emplace_back([&](const std::stop_token& stop) { read_all(stop, read); });
    for (int w = 0; w < workers_; ++w)
      threads.emplace_back([&, w](const std::stop_token& stop) { work_all(stop, w, work); });
    for (std::int64_t number = 0;; ++number) {
      Done done;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_.contains(number) || (ended_ && number == issued_); });
        if (!done_.contains(number)) break;
        done = std::move(done_.extract(number).mapped());
      }
      if (done.error) stop_and_throw(threads, done.error);
      write(done.out);
      std::lock_guard lock(mutex_);
      spare_outs_.push_back(std::move(done.out));
      ++written_;
      bytes_ -= done.size;
      changed_.notify_all();
    }
    if (read_error_) stop_and_throw(threads, read_error_);
  }

 private:
  struct Job {
    std::int64_t number = 0;
    In in;
    std::size_t size = 0;
  };
  struct Done {
    Out out;
    std::size_t size = 0;
    std::exception_ptr error;
  };

  template <class T>
  static void take_spare(std::vector<T>& spares, T& to) {
    if (spares.empty()) return;
    to = std::move(spares.back());
    spares.pop_back();
  }

  [[noreturn]] void stop_and_throw(std::vector<std::jthread>& threads, const std::exception_ptr& error) {
    threads.clear();
    std::rethrow_exception(error);
  }

  void read_all(const std::stop_token& stop, const Read& read) {
    std::exception_ptr error;
    try {
      for (;;) {
        Job job;
        {
          std::lock_guard lock(mutex_);
          take_spare(spare_ins_, job.in);
        }
        if (stop.stop_requested() || !read(job.in)) break;
        job.size = size_of_(job.in);
        std::unique_lock lock(mutex_);
        const auto room = [&] {
          return issued_ == written_ ||
                 (issued_ - written_ < in_flight_ && bytes_ + job.size <= in_flight_bytes_);
        };
        if (!changed_.wait(lock, stop, room)) break;
        job.number = issued_++;
        bytes_ += job.size;
        jobs_.push_back(std::move(job));
        changed_.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    read_error_ = error;
    ended_ = true;
    changed_.notify_all();
  }

  void work_all(const std::stop_token& stop, int worker, const Work& work) {
    for (;;) {
      Job job;
      Done done;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return !jobs_.empty() || ended_; }) || jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        take_spare(spare_outs_, done.out);
      }
      done.size = job.size;
      try {
        work(worker, job.in, done.out);
      } catch (...) {
        done.error = std::current_exception();
      }
      std::lock_guard lock(mutex_);
      spare_ins_.push_back(std::move(job.in));
      done_.emplace(job.number, std::move(done));
      changed_.notify_all();
    }
  }

  const int workers_;
  const std::int64_t in_flight_;
  const std::size_t in_flight_bytes_;
  const std::function<std::size_t(const In&)> size_of_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  std::map<std::int64_t, Done> done_;
  std::vector<In> spare_ins_;
  std::vector<Out> spare_outs_;
  std::int64_t issued_ = 0, written_ = 0;
  std::size_t bytes_ = 0;
  bool ended_ = false;
  std::exception_ptr read_error_;
};

}  // namespace stoa::data
