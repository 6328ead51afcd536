// What compiling one constraint may take.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/error.h"

namespace stoa::constraint {

struct Limits {
  std::int64_t states = 200'000;  // of automata, those in between among them
  double seconds = 2;             // of compilation
  std::int64_t depth = 256;       // of nested rules while a text is read
};

// Text that is no constraint, says something that is not supported, or would take more than its limits.
class ConstraintError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// Counts down while a constraint is compiled.
class Budget {
 public:
  explicit Budget(const Limits& limits = {})
      : limits_(limits),
        end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                    std::chrono::duration<double>(limits.seconds))) {}

  const Limits& limits() const { return limits_; }
  // ConstraintError: that was too much.
  void spend(std::int64_t states) {
    spent_ += states;
    require<ConstraintError>(spent_ <= limits_.states,
                             "the constraint is too large: its automaton takes more than {} states",
                             limits_.states);
    if ((spent_ & ~std::int64_t{255}) == checked_) return;
    checked_ = spent_ & ~std::int64_t{255};
    check_time();
  }
  void check_time() const {
    require<ConstraintError>(std::chrono::steady_clock::now() < end_,
                             "the constraint is too complex: it was not compiled within {:g} s",
                             limits_.seconds);
  }

 private:
  const Limits limits_;
  const std::chrono::steady_clock::time_point end_;
  std::int64_t spent_ = 0, checked_ = 0;
};

}  // namespace stoa::constraint
