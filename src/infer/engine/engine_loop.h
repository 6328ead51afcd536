// The engine on a thread of its own: any thread may ask, cancel and look at the counters.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "infer/engine/engine.h"

namespace stoa::infer {

class EngineLoop {
 public:
  // The engine is used by the loop alone from now on.
  explicit EngineLoop(Engine& engine);
  // Ends what is open (EndReason::kCaller).
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Errors of Engine::check. The listener is called on the loop's thread; it must not wait for long.
  RequestId submit(Request request, Listener listener);
  // Takes effect before the next pass.
  void cancel(RequestId request);
  // Waits until nothing is left to do, or the time has passed; returns whether nothing is left.
  bool wait_idle(std::chrono::milliseconds most);
  EngineCounters counters() const;
  const PassLimits& limits() const { return engine_.limits(); }

 private:
  struct Order {
    RequestId id;
    std::optional<Request> request;  // none: cancel it
    Listener listener;
  };
  void run();
  void take(std::vector<Order>& orders);

  Engine& engine_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<Order> orders_;
  EngineCounters counters_;
  RequestId next_id_ = 1;
  bool busy_ = false, stop_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace stoa::infer
