// For tests of operations: tensors with guarded memory and random content, and comparison of a backend with
// the reference. Test-only: no library includes it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "device/host/inline_stream.h"
#include "ops/check/check_backend.h"
#include "ops/op_context.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops::testing {

constexpr DType kF64 = DType::kF64;

// Owns the tensors of one test. Bytes around tensors and between strided rows carry a pattern;
// expect_guards() proves that nobody wrote there.
class Tensors {
 public:
  explicit Tensors(std::uint64_t seed = 1);

  // `gap`: elements between rows (dimension 0 strided); `fill`: content until written (NaN).
  TensorView empty(DType type, Shape shape, std::int64_t gap = 0);
  TensorView zeros(DType type, Shape shape, std::int64_t gap = 0);
  // Numbers of deviation `scale` around `mean`, nearly normal.
  TensorView random(DType type, Shape shape, double scale = 1, std::int64_t gap = 0, double mean = 0);
  TensorView of(DType type, Shape shape, const Values& values);
  TensorView int32(const std::vector<std::int32_t>& values);
  TensorView int64(const std::vector<std::int64_t>& values);
  // Integers in [0, limit).
  TensorView random_int32(std::int64_t count, std::int64_t limit);
  TensorView copy(const TensorView& from);
  // Step state with a loss scale of 1 and `updates` updates behind it.
  TensorView state(double loss_scale = 1, double updates = 0);
  static double& slot(const TensorView& state, StepSlot slot) {
    return state.as<double>()[static_cast<int>(slot)];
  }

  void expect_guards() const;

 private:
  struct Block {
    std::unique_ptr<AlignedBytes> memory;
    std::size_t bytes;
    TensorView view;
  };

  double draw();

  PhiloxKey key_;
  std::uint64_t next_ = 0;
  std::vector<Block> blocks_;
};

// Runs one operation as run() does, with a workspace of the asked size that is poisoned before and guarded
// behind.
template <class Op>
void run_on(Backend& backend, const Op& op) {
  check(op);
  InlineStream stream;
  constexpr std::size_t kGuard = 256;
  const std::size_t bytes = backend.workspace_bytes(op);
  const AlignedBytes workspace(bytes + kGuard);
  std::memset(workspace.data(), 0xff, bytes + kGuard);
  backend.execute(op, Resources{stream, bytes ? workspace.data() : nullptr});
  const auto* guard = static_cast<const unsigned char*>(workspace.data()) + bytes;
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (guard[i] == 0xff) continue;
    ADD_FAILURE() << Op::kName << ": byte " << i << " behind its workspace of " << bytes
                  << " bytes was written";
    return;
  }
}

template <class Op>
void run_reference(const Op& op) {
  ReferenceBackend reference;
  run_on(reference, op);
}

// Runs `op` on `backend` (on the tensors) and on the reference (on copies); a failure names the worst
// element.
template <class Op>
void expect_like_reference(Backend& backend, const Op& op, Tolerance tolerance = {}) {
  ReferenceBackend reference;
  CheckBackend both(backend, reference, tolerance);
  try {
    run_on(both, op);
  } catch (const NumericsError& error) {
    ADD_FAILURE() << error.what();
  }
}

// Gradient of sum(c * y) with respect to every element of `x` by central differences; `forward` writes y from
// x. fp64.
template <class Forward>
Values numeric_gradient(const TensorView& x, const TensorView& y, const Values& c, Forward&& forward,
                        double step = 1e-5) {
  const auto loss = [&] {
    forward();
    const Values values = load(y);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += c[i] * values[i];
    return sum;
  };
  const Values start = load(x);
  Values gradient(start.size()), moved = start;
  for (std::size_t i = 0; i < start.size(); ++i) {
    moved[i] = start[i] + step;
    store(moved, x);
    const double above = loss();
    moved[i] = start[i] - step;
    store(moved, x);
    const double below = loss();
    moved[i] = start[i];
    gradient[i] = (above - below) / (2 * step);
  }
  store(start, x);
  forward();
  return gradient;
}

// Central differences are exact to about step^2 and roundoff/step.
inline void expect_gradient(const TensorView& got, const Values& expected, const char* name,
                            double tolerance = 1e-7) {
  const Values values = load(got);
  ASSERT_EQ(values.size(), expected.size()) << name;
  double square = 0;
  for (double x : expected) square += x * x;
  const double rms = expected.empty() ? 0 : std::sqrt(square / static_cast<double>(expected.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::fabs(values[i] - expected[i]), tolerance * (1 + rms + std::fabs(expected[i])))
        << name << "[" << i << "] is " << values[i] << ", by differences " << expected[i];
  }
}

}  // namespace stoa::ops::testing
