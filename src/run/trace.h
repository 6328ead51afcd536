// Chrome trace of chosen steps: actions of the schedule and the operations inside them. Open trace.json in
// any viewer of that format.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/op_context.h"

namespace stoa::run {

class TraceRecorder final : public ops::OpObserver {
 public:
  // Ranks of one process share the origin of time. With a device whose work runs on after the call returns,
  // give the stream: it is synchronised after every operation, so that each has its own time.
  using Clock = std::chrono::steady_clock;
  explicit TraceRecorder(Stream* stream = nullptr, Clock::time_point origin = Clock::now())
      : stream_(stream), origin_(origin) {}

  void before(const char* op, double matrix_flops) override;
  void after(const char* op) override;
  // A span around several operations ("forward chunk 0 microbatch 3").
  void begin(std::string name);
  void end();

  // {"traceEvents": […]}, times in microseconds since the origin. `rank` is the process number in the viewer,
  // `name` what it is called there.
  std::string json(int rank, const std::string& name = {}) const;
  // The events of several ranks in one document.
  static std::string join(const std::vector<std::string>& documents);
  bool empty() const { return events_.empty(); }

 private:
  struct Event {
    std::string name;
    std::int64_t begin_ns, duration_ns;
    double flops;
    int depth;
  };
  std::int64_t now() const;

  Stream* const stream_;
  const Clock::time_point origin_;
  std::vector<Event> events_;
  std::vector<std::size_t> open_;
};

}  // namespace stoa::run
