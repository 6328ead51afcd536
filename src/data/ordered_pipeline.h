// Several workers that take turns at reading, and one writer: blocks are written in the order in which they
// were read, and memory is bounded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace stoa::data {

// Runs `read` and `work` on `workers` threads, one `read` at a time: the thread that read a block still has
// it in its cache. Runs `write` on the calling thread. The first failure in the order of the blocks, wherever
// it occurred, is thrown here after all threads have ended.
template <class In, class Out>
class OrderedPipeline {
 public:
  using Read = std::function<bool(In&)>;  // false at the end
  using Work = std::function<void(int worker, In&, Out&)>;
  using Write = std::function<void(Out&)>;

  // No block is read while `in_flight` are read and not yet written, or `in_flight_bytes` of input as
  // `size_of` counts it.
  OrderedPipeline(int workers, std::int64_t in_flight, std::size_t in_flight_bytes,
                  std::function<std::size_t(const In&)> size_of)
      : workers_(workers),
        in_flight_(in_flight),
        in_flight_bytes_(in_flight_bytes),
        size_of_(std::move(size_of)) {}

  void run(const Read& read, const Work& work, const Write& write) {
    std::vector<std::jthread> threads;  // joined on every way out of here,
    const Stop stop(*this);             // told to end before
    for (int w = 0; w < workers_; ++w) threads.emplace_back([&, w] { work_all(w, read, work); });
    for (std::int64_t number = 0;; ++number) {
      Done done;
      {
        std::unique_lock lock(mutex_);
        next_done_.wait(lock, [&] { return done_.contains(number) || (ended_ && number == issued_); });
        if (!done_.contains(number)) break;
        done = std::move(done_.extract(number).mapped());
      }
      if (done.error) std::rethrow_exception(done.error);
      write(done.out);
      {
        std::lock_guard lock(mutex_);
        spare_outs_.push_back(std::move(done.out));
        ++written_;
        bytes_ -= done.size;
      }
      room_.notify_one();
    }
    if (read_error_) std::rethrow_exception(read_error_);
  }

 private:
  struct Done {
    Out out;
    std::size_t size = 0;
    std::exception_ptr error;
  };

  class Stop {
   public:
    explicit Stop(OrderedPipeline& pipeline) : pipeline_(pipeline) {}
    ~Stop() {
      {
        std::lock_guard lock(pipeline_.mutex_);
        pipeline_.ended_ = true;
      }
      pipeline_.room_.notify_one();
    }
    Stop(const Stop&) = delete;
    Stop& operator=(const Stop&) = delete;

   private:
    OrderedPipeline& pipeline_;
  };

  // The next block and its number; false if there is none, or the pipeline was ended.
  bool take(const Read& read, In& in, Done& done, std::int64_t& number) {
    const std::lock_guard turn(reading_);
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] {
        return ended_ || issued_ == written_ ||
               (issued_ - written_ < in_flight_ && bytes_ < in_flight_bytes_);
      });
      if (ended_) return false;
      if (!spare_outs_.empty()) {
        done.out = std::move(spare_outs_.back());
        spare_outs_.pop_back();
      }
    }
    bool found = false;
    std::exception_ptr error;
    try {
      found = read(in);
      if (found) done.size = size_of_(in);
    } catch (...) {
      found = false;
      error = std::current_exception();
    }
    {
      std::lock_guard lock(mutex_);
      if (found) {
        number = issued_++;
        bytes_ += done.size;
        return true;
      }
      read_error_ = error;
      ended_ = true;
    }
    next_done_.notify_one();
    return false;
  }

  void work_all(int worker, const Read& read, const Work& work) {
    In in;
    for (;;) {
      Done done;
      std::int64_t number = 0;
      if (!take(read, in, done, number)) return;
      try {
        work(worker, in, done.out);
      } catch (...) {
        done.error = std::current_exception();
      }
      bool is_next = false;
      {
        std::lock_guard lock(mutex_);
        done_.emplace(number, std::move(done));
        is_next = number == written_;
      }
      if (is_next) next_done_.notify_one();
    }
  }

  const int workers_;
  const std::int64_t in_flight_;
  const std::size_t in_flight_bytes_;
  const std::function<std::size_t(const In&)> size_of_;

  std::mutex reading_;  // held by the worker whose turn it is; taken before mutex_
  std::mutex mutex_;
  std::condition_variable room_, next_done_;  // for the worker that would read, for the writer
  std::map<std::int64_t, Done> done_;
  std::vector<Out> spare_outs_;
  std::int64_t issued_ = 0, written_ = 0;
  std::size_t bytes_ = 0;
  bool ended_ = false;  // no block is read any more
  std::exception_ptr read_error_;
};

}  // namespace stoa::data
