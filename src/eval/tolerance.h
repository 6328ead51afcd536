// How far apart two correct computations of one tensor may be: derived, not tuned. docs/tensor-dumps.md
// explains it.
//
// A product of inner size k in arithmetic with unit roundoff u (of its inputs and outputs) and v (of its
// sums) has an error of about sqrt(u^2 + k v^2) of its norm. Errors of successive operations are independent:
// after d of them the norm of the error is about sqrt(d) times that. Two computations differ by sqrt(2) times
// as much; kSafety allows for operations that amplify errors (norms, softmax).
#pragma once

#include <cstdint>
#include <string_view>

#include "ckpt/tensor_dump.h"

namespace stoa::eval {

// What may differ: of norms (relative to the tensor's) and of one element (relative to the larger of both
// values and the tensor's root mean square); `absolute` of every element in addition to that.
struct Allowed {
  double norm = 0, element = 0, absolute = 0;
};

// Unit roundoff of "fp32", "bf16"…; ConfigError for other names.
double unit_roundoff(std::string_view type);

class Tolerance {
 public:
  static constexpr double kSafety = 4;
  static constexpr double kRoundings = 6;  // operations that round, per block and direction

  // `compute_a`, `compute_b`: types of the products; the coarser counts. `inner`: the longest sum; `layers`.
  Tolerance(std::string_view compute_a, std::string_view compute_b, std::int64_t inner, std::int64_t layers);

  // `elements`: compared ones.
  Allowed of(const ckpt::DumpRecord& a, const ckpt::DumpRecord& b, std::int64_t elements) const;

  // `moved`: what the updates before the step may have moved an element of a weight by; infinite: not known.
  void start_step(double moved) { drift_ = 0, moved_ = moved; }
  // Weights that differ before the step (measured, relative norm) make all that comes after them differ.
  void add_drift(double relative) { drift_ = relative > drift_ ? relative : drift_; }

 private:
  double rounding_;  // of one operation
  std::int64_t layers_;
  double drift_ = 0, moved_ = 0;
};

}  // namespace stoa::eval
