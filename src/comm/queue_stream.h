// A device in miniature, for tests: streams whose work a thread of their own does later, and transfers on
// them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/rank_order_reduce.h"
#include "device/device_transfer.h"

namespace stoa::comm::suite {

class QueueEvent final : public Event {
 public:
  struct Mark {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return reached; });
    }
    void reach() {
      const std::lock_guard lock(mutex);
      reached = true;
      changed.notify_all();
    }
  };

  bool ready() const override {
    const std::lock_guard lock(mark->mutex);
    return mark->reached;
  }
  void wait() override { mark->wait(); }

  std::shared_ptr<Mark> mark = std::make_shared<Mark>();
};

class QueueStream final : public Stream {
 public:
  ~QueueStream() override {
    synchronize();
    submit(nullptr);
  }

  void submit(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_all();
  }
  std::unique_ptr<Event> record() override {
    auto event = std::make_unique<QueueEvent>();
    submit([mark = event->mark] { mark->reach(); });
    return event;
  }
  void wait(const Event& event) override {
    submit([mark = static_cast<const QueueEvent&>(event).mark] { mark->wait(); });
  }
  void synchronize() override { record()->wait(); }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !works_.empty(); });
        work = std::move(works_.front());
        works_.pop_front();
      }
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  std::jthread thread_{[this] { run(); }};
};

class QueueTransfer final : public DeviceTransfer {
 public:
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    static_cast<QueueStream&>(stream).submit([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      std::memcpy(to, from, bytes);
    });
  }
  void reduce(DType type, bool maximum, std::span<const void* const> inputs, std::span<void* const> outputs,
              std::int64_t count, Stream& stream) override {
    static_cast<QueueStream&>(stream).submit([=, in = std::vector(inputs.begin(), inputs.end()),
                                              out = std::vector(outputs.begin(), outputs.end())] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      reduce_in_rank_order(type, maximum ? ReduceOp::kMax : ReduceOp::kSum, in, out, count);
    });
  }
};

}  // namespace stoa::comm::suite
