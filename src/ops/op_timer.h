// Time and matrix flops per operation, for `stoa bench ops` and traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ops/op_context.h"

namespace stoa::ops {

// Observes one rank's operations. With a device whose work runs on after the call returns, give the stream:
// it is synchronised after every operation, so that each is charged with its own time.
class OpTimer final : public OpObserver {
 public:
  struct Total {
    std::int64_t calls = 0;
    double seconds = 0;
    double matrix_flops = 0;
    double shortest = 0;  // seconds of the fastest call
  };

  explicit OpTimer(Stream* stream = nullptr) : stream_(stream) {}

  void before(const char* op, double matrix_flops) override;
  void after(const char* op) override;

  const std::map<std::string, Total, std::less<>>& totals() const { return totals_; }
  double seconds() const;  // of all operations
  void reset() { totals_.clear(); }

  // The slowest first: operation, calls, milliseconds, share, TFLOP/s of the matrix products, and with
  // `peak_tflops` above 0 their share of it.
  std::string table(double peak_tflops = 0) const;
  // {"linear forward": {"calls": 3, "seconds": 0.1, "matrix_flops": 1e9, "tflops": 0.01}, ...}, in the
  // table's order.
  std::string json() const;

 private:
  using Clock = std::chrono::steady_clock;
  Stream* stream_;
  std::map<std::string, Total, std::less<>> totals_;
  Clock::time_point start_;
  double flops_ = 0;
};

}  // namespace stoa::ops
