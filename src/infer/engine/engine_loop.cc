#include "infer/engine/engine_loop.h"

#include <utility>

namespace stoa::infer {

EngineLoop::EngineLoop(Engine& engine)
    : engine_(engine), counters_(engine.counters()), thread_([this] { run(); }) {}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

RequestId EngineLoop::submit(Request request, Listener listener) {
  engine_.check(request);
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    orders_.push_back({id, std::move(request), std::move(listener)});
  }
  wake_.notify_all();
  return id;
}

void EngineLoop::cancel(RequestId request) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({request, std::nullopt, nullptr});
  }
  wake_.notify_all();
}

bool EngineLoop::wait_idle(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, most, [this] { return !busy_ && orders_.empty(); });
}

EngineCounters EngineLoop::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void EngineLoop::take(std::vector<Order>& orders) {
  for (Order& order : orders) {
    if (order.request)
      engine_.submit(order.id, std::move(*order.request), std::move(order.listener));
    else
      engine_.cancel(order.id);
  }
  orders.clear();
}

void EngineLoop::run() {
  std::vector<Order> orders;
  bool more = false, stop = false, begun = false;
  while (!stop) {
    {
      std::unique_lock lock(mutex_);
      busy_ = more;
      counters_ = engine_.counters();
      if (!more && orders_.empty()) idle_.notify_all();
      wake_.wait(lock, [&] { return more || stop_ || !orders_.empty(); });
      std::swap(orders, orders_);
      busy_ = true;
      stop = stop_;
    }
    take(orders);
    if (stop) break;
    try {
      if (!begun) engine_.use_in_this_thread();
      begun = true;
      more = engine_.step();
    } catch (const std::exception& error) {
      engine_.cancel_all(EndReason::kFailed, error.what());
      more = false;
    }
  }
  engine_.cancel_all(EndReason::kCaller, "");
}

}  // namespace stoa::infer
